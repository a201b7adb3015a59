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

// maxID bounds hash ids, those of copies too: of larger ones the reference reads
// the lower 32 bits only.
const maxID = 1 << 32

// Tile writes the first requests of an endless trace: a trace in the mooncake format, called name in errors, again and
// again. Each copy comes after the one before, with separate hash ids and sessions. So every stretch of the long trace
// is as much work as the short one. The same call always writes the same bytes.
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
		// All readers agree on so few digits.
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
