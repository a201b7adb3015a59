package record

import (
	"compress/gzip"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/measure"
)

// reader reads the bytes of an answer, which may be packed.
type reader struct {
	answer *measure.Answer
	failed error          // why it cannot be read
	packed *io.PipeWriter // what is packed goes in here; nil: nothing is
	done   sync.WaitGroup
}

// init begins to read an answer of that Content-Encoding.
func (r *reader) init(encoding string, a *measure.Answer) {
	r.answer = a
	switch encoding {
	case "", "identity":
	case "gzip":
		from, to := io.Pipe()
		r.packed = to
		r.done.Go(func() {
			if err := r.unpack(from); err != nil {
				r.failed = fmt.Errorf("the answer cannot be unpacked: %w", err)
			}
			from.CloseWithError(io.ErrClosedPipe) // the rest passes unread
		})
	default:
		r.failed = fmt.Errorf("the answer is packed as %s, must be gzip or not at all", encoding)
	}
}

// unpack reads an answer to its end.
func (r *reader) unpack(from io.Reader) error {
	plain, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	buf := make([]byte, bufferBytes)
	for {
		n, err := plain.Read(buf)
		r.answer.AddBytes(time.Now(), buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// addBytes reads what has come.
func (r *reader) addBytes(p []byte) {
	switch {
	case r.packed != nil:
		_, _ = r.packed.Write(p) // it fails where the reader has
	case r.failed == nil:
		r.answer.AddBytes(time.Now(), p)
	}
}

// end waits until all that has come is read. To end twice is allowed.
func (r *reader) end() {
	if r.packed != nil {
		r.packed.Close()
		r.done.Wait()
	}
}
