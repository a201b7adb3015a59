// Command pictures draws the pictures of docs/concepts from replays of the small traces in that folder:
//
//	go generate ./docs/...
//
// Read main.go (the replays), record.go (the recorded events), passes.go, pools.go and routing.go (one picture each),
// svg.go.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

//go:generate go run . ..

func main() {
	if err := writePictures(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// writePictures writes the pictures into the folder of the traces.
func writePictures(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("must be the folder of the traces")
	}
	all, err := drawAll(args[0])
	if err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// drawAll returns the pictures by name.
func drawAll(dir string) (map[string]string, error) {
	r, err := replayAll(dir)
	if err != nil {
		return nil, err
	}
	return map[string]string{"passes.svg": drawPasses(r.passes), "pools.svg": drawPools(r.pools), "routing.svg": drawRouting(r.routing)}, nil
}

// recordings holds the replays for the pictures.
type recordings struct {
	passes, pools *recording
	routing       []*recording // round robin, the KV router
}

// replayAll replays the traces.
func replayAll(dir string) (*recordings, error) {
	r := new(recordings)
	engine, err := engineargs.Parse([]byte(`{"scheduler_profile": "vllm-0.33", "max_num_batched_tokens": 512}`), engineargs.Options{})
	if err != nil {
		return nil, err
	}
	r.passes, err = replayTrace(filepath.Join(dir, "passes.jsonl"), replay.OnePool(engine, 1), policy.RoundRobin)
	if err != nil {
		return nil, err
	}
	prefill, decode := engine, engine
	prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
	prefill.KVBytesPerToken, prefill.TransferGBPerSecond = 131072, 12
	r.pools, err = replayTrace(filepath.Join(dir, "pools.jsonl"), replay.TwoPools(replay.Pool{Engine: prefill, Count: 1}, replay.Pool{Engine: decode, Count: 1}), policy.RoundRobin)
	if err != nil {
		return nil, err
	}
	engine.MaxBatchedTokens = 8192
	for _, router := range []policy.Name{policy.RoundRobin, policy.KV} {
		one, err := replayTrace(filepath.Join(dir, "routing.jsonl"), replay.OnePool(engine, 3), router)
		if err != nil {
			return nil, err
		}
		r.routing = append(r.routing, one)
	}
	return r, nil
}

// replayTrace replays a trace with blocks of 64 tokens.
func replayTrace(path string, pools []replay.Pool, router policy.Name) (*recording, error) {
	spec := replay.Spec{Trace: &replay.Trace{Path: path, BlockTokens: 64}, Mode: loadgen.Trace, Speedup: 1}
	spec.Pools, spec.Router = pools, router
	r := new(recording)
	if _, err := spec.Run(context.Background(), replay.Streams{Observer: r}); err != nil {
		return nil, err
	}
	return r, nil
}
