package record

import (
	"compress/gzip"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/measure"
)

// reader reads the bytes of an answer, which may be compressed.
type reader struct {
	answer *measure.Answer
	failed error          // why the answer cannot be read
	packed *io.PipeWriter // receives the compressed bytes; nil: the answer is not compressed
	done   sync.WaitGroup
}

// init starts to read an answer with a Content-Encoding.
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
			from.CloseWithError(io.ErrClosedPipe) // the remaining bytes are forwarded without being read
		})
	default:
		r.failed = fmt.Errorf("the answer is packed as %s, must be gzip or not at all", encoding)
	}
}

// unpack decompresses and reads an answer to its end.
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

// addBytes reads the next bytes of an answer.
func (r *reader) addBytes(p []byte) {
	switch {
	case r.packed != nil:
		_, _ = r.packed.Write(p) // the write fails after an error of the decompression
	case r.failed == nil:
		r.answer.AddBytes(time.Now(), p)
	}
}

// end waits until all bytes are read. end may be called twice.
func (r *reader) end() {
	if r.packed != nil {
		r.packed.Close()
		r.done.Wait()
	}
}
