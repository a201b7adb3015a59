package options

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay"
)

// scaleFile is a file that says when the number of workers changes: a list of
// mappings with at, and workers or prefill and decode.
type scaleFile struct {
	yamlFile
	two bool // there are prefill and decode workers
}

// fillScale enters into spec when the number of workers changes.
func (o *Options) fillScale(spec *replay.Spec) error {
	f := scaleFile{yamlFile: yamlFile{o.Cluster.scale}, two: spec.Disaggregated()}
	if f.path == "" {
		return nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("--scale: %w", err)
	}
	spec.Scale, err = f.readEvents(text)
	return err
}

// readEvents are those of the file.
func (f *scaleFile) readEvents(text []byte) ([]replay.ScaleEvent, error) {
	bodies, err := cli.YamlBodies(f.path, text)
	if err != nil {
		return nil, err
	}
	var all []replay.ScaleEvent
	for _, body := range bodies {
		list, ok := body.(*ast.SequenceNode)
		if !ok {
			return nil, f.errorAt(body, "want a list of events, as - {at: 90s, workers: 4}")
		}
		for _, node := range list.Values {
			e, err := f.readEvent(node)
			if err != nil {
				return nil, err
			}
			if n := len(all); n > 0 && e.At < all[n-1].At {
				return nil, f.errorAt(node, "at is %v ms, must be at least that of the event before, %v ms", float64(e.At), float64(all[n-1].At))
			}
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no events, want a list of them, as - {at: 90s, workers: 4}", f.path)
	}
	return all, nil
}

// readEvent reads one event.
func (f *scaleFile) readEvent(node ast.Node) (replay.ScaleEvent, error) {
	e := replay.ScaleEvent{Workers: replay.KeepSize, Decode: replay.KeepSize}
	entries, ok := cli.YamlPairs(node)
	if !ok {
		return e, f.errorAt(node, "want an event, as {at: 90s, workers: 4}")
	}
	seen := map[string]bool{}
	for _, entry := range entries {
		key := entry.Key.GetToken().Value
		if seen[key] {
			return e, f.errorAt(entry.Key, "%s is given twice", key)
		}
		seen[key] = true
		text, err := cli.YamlText(entry.Value)
		if err == nil {
			err = f.setValue(&e, key, text)
		}
		if err != nil {
			return e, f.errorAt(entry.Key, "%s: %v", key, err)
		}
	}
	switch {
	case !seen["at"]:
		return e, f.errorAt(node, "at is missing")
	case len(seen) == 1:
		return e, f.errorAt(node, "want %s beside at", f.poolKeys())
	}
	return e, nil
}

// setValue takes in one value of an event.
func (f *scaleFile) setValue(e *replay.ScaleEvent, key, text string) (err error) {
	count := &e.Workers
	switch {
	case key == "at":
		if e.At, err = cli.ParseInstant(text); err != nil {
			return excerpt.Errorf("%s: %w", text, err)
		}
		return nil
	case key == "decode" && f.two:
		count = &e.Decode
	case key == "workers" && !f.two, key == "prefill" && f.two:
	case key == "workers":
		return errors.New("only where workers both prefill and decode, want prefill or decode")
	case key == "prefill" || key == "decode":
		return errors.New("only with --prefill-workers and --decode-workers, want workers")
	default:
		return excerpt.Errorf("no such key, want at and %s%s", f.poolKeys(), nearest.Ask(key, append(strings.Split(f.poolKeys(), " or "), "at")))
	}
	if *count, err = strconv.Atoi(text); err != nil || *count < 1 || *count > mostWorkers {
		return excerpt.Errorf("%s: want 1 to %d workers", text, mostWorkers)
	}
	return nil
}

func (f *scaleFile) poolKeys() string {
	if f.two {
		return "prefill or decode"
	}
	return "workers"
}

// mostWorkers is the largest pool that replay runs.
const mostWorkers = 1_000_000
