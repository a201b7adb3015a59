package files

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/sim"
)

// scaleEvent is an entry of a file with changes of size.
type scaleEvent struct {
	At      sim.Time `yaml:"at"`
	Workers int      `yaml:"workers,prefill" of:"alike,apart" is:"1..1000000"`
	Decode  int      `yaml:"decode" of:"apart" is:"1..1000000"`
}

// ParseScale parses the times at which the number of workers changes. two reports whether prefill and decode workers
// are separate. path is the name of the file in errors.
func ParseScale(path string, text []byte, two bool) ([]replay.ScaleEvent, error) {
	bodies, err := yamlfile.ListBodies(path, text)
	if err != nil {
		return nil, err
	}
	keys := "workers"
	f := &yamlfile.File{Path: path, Kind: "alike", Only: func([]string) error {
		return errors.New("requires --prefill-workers and --decode-workers: use workers")
	}}
	if two {
		keys, f.Kind = "prefill or decode", "apart"
		f.Only = func([]string) error {
			return errors.New("not supported with --prefill-workers and --decode-workers: use prefill or decode")
		}
	}
	var all []replay.ScaleEvent
	for _, body := range bodies {
		err := f.ReadList(body, "events, as - {at: 90s, workers: 4}", func(node ast.Node) error {
			e := scaleEvent{Workers: replay.KeepSize, Decode: replay.KeepSize}
			seen, err := f.Read(node, "an event", &e)
			switch n := len(all); {
			case err != nil:
				return err
			case !seen.Has("at"):
				return f.ErrorAt(node, "at is missing")
			case len(seen) == 1:
				return f.ErrorAt(node, "requires %s with at", keys)
			case n > 0 && e.At < all[n-1].At:
				return f.ErrorAt(node, "at is %v ms, must be at least that of the event before, %v ms", float64(e.At), float64(all[n-1].At))
			}
			all = append(all, replay.ScaleEvent(e))
			return nil
		})
		if err != nil {
			return nil, f.PlaceError(body, err)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no events, must be a list of them, as - {at: 90s, workers: 4}", path)
	}
	return all, nil
}
