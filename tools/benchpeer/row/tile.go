package row

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/loadgen/formats/write"
)

// maxID is the limit of hash ids, including those of copies. The reference reads only the lower 32 bits of an id.
const maxID = 1 << 32

// Tile writes the given number of requests by repeating a trace in the Mooncake format. name is the name of the trace
// in errors. Each copy follows the previous copy, with separate hash ids and sessions. Each part of the long trace is
// thus as much work as the short trace. Equal calls write equal bytes.
func Tile(out io.Writer, in io.Reader, name string, requests int) error {
	short, err := readShort(in, name)
	if err != nil {
		return err
	}
	last, arrivals, ids := 0.0, 0, uint64(0)
	for i := range short {
		if short[i].HasAt {
			last = max(last, short[i].At)
			arrivals++
		}
		for _, id := range short[i].IDs {
			ids = max(ids, id+1)
		}
	}
	copies := uint64(requests+len(short)-1) / uint64(len(short))
	if ids > 0 && copies > maxID/ids {
		return fmt.Errorf("%d copies with %d hash ids each, must be at most %d ids", copies, ids, uint64(maxID))
	}
	// The next copy begins one mean gap after the last arrival.
	period := math.Ceil(last + last/float64(max(arrivals-1, 1)))
	w, err := write.NewWriter(out, formats.Mooncake, TraceBlock)
	if err != nil {
		return err
	}
	for i := range requests {
		n := i / len(short)
		r := short[i%len(short)].Clone()
		// All readers parse three decimals to the same number.
		r.At = math.Round((r.At+float64(float64(n)*period))*1e3) / 1e3
		if r.Session != nil && n > 0 {
			r.Session = fmt.Appendf(r.Session, "+%d", n)
		}
		for k := range r.IDs {
			r.IDs[k] += uint64(n) * ids
		}
		if err := w.Write(&r); err != nil {
			return err
		}
	}
	return w.Flush()
}

// readShort reads the requests of a trace.
func readShort(in io.Reader, name string) ([]formats.Record, error) {
	stream, err := registry.NewStream(in, name, formats.Options{Format: formats.Mooncake, TraceBlock: TraceBlock})
	if err != nil {
		return nil, err
	}
	var all []formats.Record
	for {
		var r formats.Record
		switch err := stream.Next(&r); {
		case errors.Is(err, io.EOF) && len(all) == 0:
			return nil, fmt.Errorf("%s: no requests, must be at least 1", name)
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, r.Clone())
	}
}
