package replay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

// twoRequests returns a valid spec.
func twoRequests() Spec {
	return Spec{
		Synthetic: loadgen.Synthetic{Requests: 2, Input: 100, Output: 3, Interval: 10, Turns: 1},
		Speedup:   1, Topology: Topology{Pools: OnePool(engineargs.Default(), 1)},
	}
}

// args returns engine arguments, changed by a function.
func args(change func(*engineargs.Args)) engineargs.Args {
	a := engineargs.Default()
	change(&a)
	return a
}

// one returns a pool of one worker with engine arguments changed by a function.
func one(change func(*engineargs.Args)) []Pool { return OnePool(args(change), 1) }

// two returns pools of engines with the given roles.
func two(prefill, decode scheduler.Role, prefillWorkers int) []Pool {
	role := func(r scheduler.Role) engineargs.Args { return args(func(a *engineargs.Args) { a.Role = r }) }
	return TwoPools(Pool{Engine: role(prefill), Count: prefillWorkers}, Pool{Engine: role(decode), Count: 1})
}

// TestValidate checks the order of checks, which is that of the reference. Each spec breaks the given rule and all
// later rules.
func TestValidate(t *testing.T) {
	cases := []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"R1", func(s *Spec) { s.PrefillLoad.Backend, s.Pools[0].Count = "vllm", 0 }, "requires the KV router"},
		{"M1", func(s *Spec) { s.Mode, s.Router = loadgen.Concurrency, policy.KV }, "requests in flight are 0"},
		{"V1", func(s *Spec) { s.Router, s.Pools[0].Engine.Role = policy.KV, scheduler.Decode }, "at least 2 with the KV router"},
		{"V2", func(s *Spec) { s.Pools[0].Count, s.Pools[0].Engine.Role = 0, scheduler.Decode }, "workers are 0"},
		{"V2", func(s *Spec) {
			s.Pools = one(func(a *engineargs.Args) { a.Role, a.DPSize = scheduler.Decode, 2 })
		}, "worker_type is \"decode\""},
		{"V2", func(s *Spec) { s.Pools = one(func(a *engineargs.Args) { a.DPSize, a.BlockTokens = 2, 48 }) }, "dp_size is 2"},
		{"V4", func(s *Spec) { s.Pools = two(0, 0, 0) }, "prefill workers are 0"},
		{"V4", func(s *Spec) { s.Pools = two(0, 0, 1) }, "prefill engine arguments: worker_type"},
		{"V5", func(s *Spec) { s.Pools = one(func(a *engineargs.Args) { a.BlockTokens = 48 }) }, "power of two"},
		{"AIC", func(s *Spec) { s.Pools = one(func(a *engineargs.Args) { a.AIC.Backend = "x" }) }, "no AIC estimator"},
		{"C4", func(s *Spec) { s.Trace = &Trace{Format: formats.Agentic} }, "no timestamps"},
		{"until", func(s *Spec) { s.Until = -1 }, "the end is at -1 ms"},
		{"window", func(s *Spec) { s.Window.From = -1 }, "must be finite instants"},
		{"window", func(s *Spec) { s.Window = collector.Window{From: 5, To: 5} }, "from 5 to 5 ms, must be finite instants >= 0, the second after the first"},
		{"window", func(s *Spec) { s.Window.From, s.Until = 5, 4 }, "must be a window that begins before"},
		{"recycle", func(s *Spec) { s.Recycle = true }, "in open loop"},
		{"recycle", func(s *Spec) { s.Recycle, s.Mode, s.MaxInFlight = true, loadgen.Concurrency, 1 }, "without end"},
		{"recycle", func(s *Spec) {
			s.Recycle, s.Mode, s.MaxInFlight, s.Window.To, s.Until = true, loadgen.Concurrency, 1, 5, 6
		}, "an early end of the replay are mutually exclusive"},
		{"pools", func(s *Spec) { s.Pools = nil }, "pools are [], must be one aggregated"},
		{"many", func(s *Spec) { s.Pools[0].Count = 1_000_001 }, "1 to 1000000"},
	}
	for _, c := range cases {
		s := twoRequests()
		c.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if _, err := s.Run(t.Context(), Streams{}); err == nil {
			t.Errorf("%s: it runs", c.name)
		}
	}
	s := twoRequests()
	s.Router, s.Scale = policy.KV, []ScaleEvent{{At: 5, Workers: 2, Decode: KeepSize}}
	if err := s.Validate(); err != nil {
		t.Errorf("one worker with the KV router, and more later: %v", err)
	}
	s = twoRequests()
	s.Pools = two(scheduler.Prefill, scheduler.Decode, 3)
	if err := s.Validate(); err != nil {
		t.Errorf("3 prefill and 1 decode workers: %v", err)
	}
	s = twoRequests()
	s.Pools = one(func(a *engineargs.Args) { a.Engine, a.BlockTokens = engineargs.SGLang, 48 })
	if err := s.Validate(); err != nil {
		t.Errorf("sglang with pages of 48 tokens: %v", err)
	}
}

// TestRunSynthetic checks the numbers of the first two requests of the example "E8 plain synthetic" of
// replay/offline.
func TestRunSynthetic(t *testing.T) {
	s := twoRequests()
	steps := 0
	result, err := s.Run(t.Context(), Streams{Progress: func(finished, requests int) {
		if steps++; finished > requests || requests != 2 {
			t.Errorf("%d of %d requests finished", finished, requests)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.Report.TTFT.Min, 23.770567000000003; got != want {
		t.Errorf("first token after %v ms, want %v", got, want)
	}
	if result.Report.Completed != 2 {
		t.Errorf("%d requests completed, want 2", result.Report.Completed)
	}
}

// TestRunTwice checks that a spec runs repeatedly with equal results.
func TestRunTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	text := `{"timestamp":0,"input_length":1000,"output_length":5,"hash_ids":[0,1]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := twoRequests()
	s.Trace = &Trace{Path: path, BlockTokens: 512}
	s.Pools = one(func(a *engineargs.Args) { a.BlockTokens = 512 })
	for _, input := range []string{path, "-", path} {
		s.Trace.Path = input
		result, err := s.Run(t.Context(), Streams{Stdin: strings.NewReader(text)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := result.Report.DurationMS, 60.83882400000002; got != want {
			t.Errorf("%s: duration %v ms, want %v", input, got, want)
		}
	}
}

// TestDetect checks the detection of the format of a file, including a file that can be read only once.
func TestDetect(t *testing.T) {
	const agent = `{"num_turns":0,"input_prompt_length":100,"assistant_response_length":[],"tool_call_output_length":[],"tool_call_latency":[],"final_assistant_response_length":5}`
	const request = `{"timestamp":0,"input_length":100,"output_length":5,"hash_ids":[0]}`
	for _, c := range []struct {
		text  string
		mode  loadgen.Mode
		trace Trace
		want  string // part of the error; "": the spec runs
	}{
		{agent, loadgen.Concurrency, Trace{}, ""},
		{agent, loadgen.Concurrency, Trace{Groups: 2, SharedRatio: 0.5}, ""},
		{request, loadgen.Concurrency, Trace{}, ""},
		{request, loadgen.Trace, Trace{Format: formats.Agentic}, ""},
		{agent, loadgen.Trace, Trace{}, "<stdin>: is in the applied_compute_agentic format"},
		{request, loadgen.Trace, Trace{Groups: 2}, "<stdin>: is in the mooncake format"},
		{`{"what":1}`, loadgen.Trace, Trace{}, "<stdin>:1: no known format; keys seen: what"},
	} {
		s := twoRequests()
		s.Mode, s.MaxInFlight, s.Trace = c.mode, 1, &c.trace
		s.Trace.Path, s.Trace.BlockTokens, s.Trace.Detect = "-", 512, true
		_, err := s.Run(t.Context(), Streams{Stdin: strings.NewReader(c.text)})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s in mode %v: %v, want %q", c.text, c.mode, err, c.want)
		}
	}
}

// departures counts requests that leave because they are rejected.
type departures struct {
	harness.NoObserver
	rejected int
}

func (o *departures) Left(d *harness.Departure) {
	if d.Outcome == collector.Rejected && d.Worker == collector.Nowhere {
		o.rejected++
	}
}

// TestRunPartly checks that changes, early ends and rejections are passed on to the replay.
func TestRunPartly(t *testing.T) {
	s := twoRequests()
	s.Until = 25
	requests := 0
	result, err := s.Run(t.Context(), Streams{Opened: func(w *loadgen.Workload) { requests = len(w.Turns) }})
	if err != nil || !result.Partial || requests != 2 {
		t.Errorf("until 25 ms: %+v, %v, %d requests", result, err, requests)
	}
	s = twoRequests()
	s.Pools = one(func(a *engineargs.Args) { a.Engine = engineargs.SGLang })
	s.Until, s.Synthetic.Interval, s.Synthetic.Output = 1, 0.5, 1
	if result, err = s.Run(t.Context(), Streams{}); err != nil || !result.Partial || result.Report.Completed != 1 {
		t.Errorf("until the second request waits for the pass of the first: %+v, %v", result, err)
	}
	s = twoRequests()
	s.Pools = one(func(a *engineargs.Args) { a.Blocks = 1 })
	if _, err = s.Run(t.Context(), Streams{}); !errors.As(err, new(*engines.OversizeError)) {
		t.Errorf("one block: %v", err)
	}
	s.Reject = true
	left := &departures{}
	if result, err = s.Run(t.Context(), Streams{Observer: left}); err != nil || len(result.Rejected) != 2 || left.rejected != 2 {
		t.Errorf("one block, rejecting: %+v, %v, %d leave", result, err, left.rejected)
	}
	s = twoRequests()
	slow, err := s.Run(t.Context(), Streams{})
	if err != nil {
		t.Fatal(err)
	}
	s.Scale = []ScaleEvent{{At: 1, Workers: 2, Decode: KeepSize}}
	fast, err := s.Run(t.Context(), Streams{})
	if err != nil || fast.Report.DurationMS >= slow.Report.DurationMS {
		t.Errorf("with a second worker: %v ms, %v; want less than %v ms", fast.Report.DurationMS, err, slow.Report.DurationMS)
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := twoRequests()
	s.Trace = &Trace{Path: "-", BlockTokens: 512}
	if _, err := s.Run(ctx, Streams{Stdin: strings.NewReader("{}")}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

func TestWarnings(t *testing.T) {
	s := twoRequests()
	s.Pools = one(func(a *engineargs.Args) { a.Engine, a.SGLang.Policy = engineargs.SGLang, "sof" })
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "sof") {
		t.Errorf("%q", w)
	}
	s.Pools = one(func(a *engineargs.Args) { a.G2.Blocks, a.KVBytesPerToken = 5, 1000 })
	if w := s.Warnings(); len(w) != 0 {
		t.Errorf("offload: %q", w)
	}
	s.Compat = true
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "num_g2_blocks is 5") {
		t.Errorf("offload with compat: %q", w)
	}
	s.Pools = two(scheduler.Prefill, scheduler.Decode, 1)
	s.Pools[1].Engine.G2.Blocks = 5
	if w := s.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "decode workers: num_g2_blocks is 5") {
		t.Errorf("two pools: %q", w)
	}
}
