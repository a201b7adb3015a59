package kvevents_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/report/kvevents"
	"github.com/replay-llm/replay/scheduler"
)

// Each removed block was stored before by the same worker, and the number of cached blocks never exceeds the
// capacity. The events do not change the times of the replay.
func TestEventsAddUp(t *testing.T) {
	const blocks = 40
	for engine, own := range map[string]string{
		"vllm": `"scheduler_profile":"vllm-0.32","max_num_batched_tokens":512`, "sglang": `"scheduler_profile":"sglang-0.5.23","max_num_batched_tokens":512`,
		"trtllm": `"trtllm":{"enable_partial_reuse":false}`, // blocks that a prompt takes over would be removed without an event
	} {
		args, err := engineargs.Parse([]byte(`{"engine_type":"`+engine+`","num_gpu_blocks":40,"block_size":16,`+own+`}`), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		spec := replay.Spec{
			Synthetic: loadgen.Synthetic{Requests: 100, Input: 100, Output: 30, Interval: 20, Turns: 2, Delay: 5},
			Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(args, 2)},
		}
		plain, err := spec.Run(t.Context(), replay.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log := kvevents.New(&out)
		told, err := spec.Run(t.Context(), replay.Streams{Observer: log, KVEvents: true})
		if err := errors.Join(err, log.Close()); err != nil {
			t.Fatal(err)
		}
		if a, b := plain.Report.E2E.Mean, told.Report.E2E.Mean; a != b {
			t.Errorf("%s: mean latency %v ms, %v ms with events", engine, a, b)
		}
		checkLines(t, engine, &out, blocks)
	}
}

func checkLines(t *testing.T, engine string, out *bytes.Buffer, blocks int) {
	t.Helper()
	type key struct {
		worker int
		hash   string
	}
	cached, held, removed := map[key]int{}, map[int]int{}, 0
	for d := json.NewDecoder(out); d.More(); {
		var l struct {
			Time   *float64 `json:"time_ms"`
			Worker int
			Type   string
			Blocks []string
			Tokens []string `json:"tokens_hashes"`
		}
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if l.Time == nil || len(l.Blocks) == 0 || (l.Type == "BlockStored") != (len(l.Tokens) == len(l.Blocks)) {
			t.Fatalf("%s: %+v", engine, l)
		}
		for _, b := range l.Blocks {
			k, n := key{l.Worker, b}, 1
			if l.Type == "BlockRemoved" {
				n = -1
				removed++
			}
			cached[k] += n
			if held[l.Worker] += n; cached[k] < 0 || held[l.Worker] > blocks {
				t.Fatalf("%s: %+v: %d of block %s, %d of all", engine, l, cached[k], b, held[l.Worker])
			}
		}
	}
	if removed == 0 || len(held) != 2 {
		t.Errorf("%s: %d blocks removed, workers %v", engine, removed, held)
	}
}

// A full disk is an error. The log keeps the first error.
func TestFullDisk(t *testing.T) {
	log := kvevents.New(full{})
	p := scheduler.Pass{Events: []scheduler.KVEvent{{Removed: make([]uint64, 10_000)}}}
	for range 3 {
		log.Pass(scheduler.Aggregated, 0, &p)
	}
	if err := log.Close(); !errors.Is(err, errFull) {
		t.Errorf("%v, want %v", err, errFull)
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
