// Package row lists the cases of the speed comparison with the reference: the workload, the cluster, and the required
// speed-up.
//
// Read row.go, then table.go; tile.go makes long traces.
package row

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/replay-llm/replay/internal/optional"
)

// Source is where the requests of a row come from.
type Source uint8

const (
	Synthetic    Source = iota // made up by the program: no two prompts share anything
	Conversation               // the Mooncake conversation trace, which is optional data
	Sessions                   // the project's trace of conversations of several turns
)

// ConversationRequests is the number of requests of the conversation trace.
const ConversationRequests = 12_031

// TraceBlock is the number of tokens that a hash id of the traces stands for.
const TraceBlock = 512

// Path returns the trace's file; "" for Synthetic.
func (s Source) Path() (string, error) {
	switch s {
	case Conversation:
		return optional.FindData("traces/mooncake_conversation.jsonl")
	case Sessions:
		return filepath.Join(optional.Root(), "testdata", "traces", "sessions.jsonl"), nil
	}
	return "", nil
}

func (s Source) String() string { return [...]string{"synthetic", "conversation", "sessions"}[s] }

// Row is one case.
type Row struct {
	Title  string // as the table has it
	Source Source
	// Requests is how many requests there are; a trace is tiled or cut to as many. 0 leaves the trace unchanged.
	Requests      int
	Input, Output int // tokens of a synthetic request

	Engine      string // "vllm" or "sglang"
	BlockTokens int    // of the engine
	Blocks      int    // of the engine's cache; 0: as many as it has by default

	Workers         int // of the only pool; 0 with two pools
	Prefill, Decode int // workers of two pools; 0 with one
	KV              bool
	InFlight        int // requests in flight in closed loop; 0: open loop

	Bounds Bounds
}

// Bounds are what a row must reach.
type Bounds struct {
	Simulation  float64       // least ratio of simulation times; 0: none is asked for
	Command     float64       // least ratio of times of the whole command
	CommandTime time.Duration // the command takes less; 0: any time will do
	Memory      float64       // largest share of the reference's peak memory
}

// Disaggregated reports whether prefill and decode have separate workers.
func (r *Row) Disaggregated() bool { return r.Prefill > 0 }

// Name returns what no other row is called, as a benchmark has it.
func (r *Row) Name() string {
	topology, workers, router := "agg", strconv.Itoa(r.Workers), "rr"
	if r.Disaggregated() {
		topology, workers = "disagg", fmt.Sprintf("%d+%d", r.Prefill, r.Decode)
	}
	if r.KV {
		router = "kv"
	}
	name := fmt.Sprintf("engine=%s/topology=%s/router=%s/block=%d/workers=%s/load=%v",
		r.Engine, topology, router, r.BlockTokens, workers, r.Source)
	if r.Source == Synthetic {
		name += fmt.Sprintf("-%d-%d", r.Input, r.Output)
	}
	if r.Requests > 0 {
		name += "/requests=" + strconv.Itoa(r.Requests)
	}
	if r.InFlight > 0 {
		name += "/inflight=" + strconv.Itoa(r.InFlight)
	}
	return name
}

// Args returns the row on the command line of the reference; trace is the file to
// replay, which Synthetic does not read.
func (r *Row) Args(trace string) []string {
	var args []string
	if r.Source == Synthetic {
		args = append(args, "--input-tokens", strconv.Itoa(r.Input), "--output-tokens", strconv.Itoa(r.Output),
			"--request-count", strconv.Itoa(r.Requests))
	} else {
		args = append(args, trace, "--trace-block-size", strconv.Itoa(TraceBlock))
	}
	if r.InFlight > 0 {
		args = append(args, "--replay-concurrency", strconv.Itoa(r.InFlight))
	}
	if r.KV {
		args = append(args, "--router-mode", "kv_router")
	}
	if !r.Disaggregated() {
		return append(args, "--num-workers", strconv.Itoa(r.Workers), "--extra-engine-args", r.EngineArgs(""))
	}
	return append(args,
		"--num-prefill-workers", strconv.Itoa(r.Prefill), "--prefill-engine-args", r.EngineArgs("prefill"),
		"--num-decode-workers", strconv.Itoa(r.Decode), "--decode-engine-args", r.EngineArgs("decode"))
}

// EngineArgs returns the JSON of the engine's arguments; role is "" in a cluster of
// one pool.
func (r *Row) EngineArgs(role string) string {
	fields := map[string]any{"block_size": r.BlockTokens}
	if r.Engine != "vllm" {
		fields["engine_type"] = r.Engine
	}
	if r.Blocks > 0 {
		fields["num_gpu_blocks"] = r.Blocks
	}
	if role != "" {
		fields["worker_type"] = role
	}
	text, err := json.Marshal(fields) // sorted by key
	if err != nil {
		panic(err) // there are numbers and strings only
	}
	return string(text)
}

// quickShare is the part of a row's requests that Quick leaves.
const quickShare = 16

// Quick returns the row with fewer requests, if it is a closed loop: enough to try
// the tools, and no measure of speed.
func (r Row) Quick() Row {
	if r.InFlight > 0 {
		r.Requests /= quickShare
		r.Title += fmt.Sprintf(" (1/%d)", quickShare)
	}
	return r
}
