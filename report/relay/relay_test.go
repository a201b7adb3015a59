package relay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/relay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// diary is an observer that records all calls.
type diary struct{ lines []string }

func (d *diary) note(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) Arrived(q *sim.Request, at sim.Time) {
	r := *q
	r.Prompt.Nodes, r.Prompt.Blocks, r.Prompt.Seed = nil, 0, 0
	d.note("arrived %+v at %v", r, at)
}

func (d *diary) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	d.note("routed %v %v request %d of %d to %d: %d %d %v %d %v", stage, at, p.Request.ID, p.Request.InputTokens,
		p.Worker, p.Overlap, p.Blocks, p.Cost, p.Second, p.SecondCost)
}

func (d *diary) Handoff(id sim.RequestID, from, to sim.Time) {
	d.note("handoff %d %v %v", id, from, to)
}

func (d *diary) Left(l *harness.Departure) { d.note("left %+v", *l) }

func (d *diary) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	q := *p
	q.Detail, q.KV, q.Nanos = nil, nil, nil
	text := fmt.Sprintf("pass %v %v %+v", stage, w, q)
	if p.Detail != nil {
		text += fmt.Sprintf(" %+v", *p.Detail)
	}
	d.note("%s", text)
}

// both passes all calls to two observers.
type both struct {
	now   *diary
	later *relay.Relay
}

func (b both) Arrived(q *sim.Request, at sim.Time) {
	b.now.Arrived(q, at)
	b.later.Arrived(q, at)
}

func (b both) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	b.now.Routed(stage, at, p)
	b.later.Routed(stage, at, p)
}

func (b both) Handoff(id sim.RequestID, from, to sim.Time) {
	b.now.Handoff(id, from, to)
	b.later.Handoff(id, from, to)
}

func (b both) Left(d *harness.Departure) {
	b.now.Left(d)
	b.later.Left(d)
}

func (b both) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	b.now.Pass(stage, w, p)
	b.later.Pass(stage, w, p)
}

// small returns a replay with caches so small that requests are preempted.
func small(t *testing.T, engine string, twoPools bool) replay.Spec {
	t.Helper()
	text := fmt.Sprintf(`{"engine_type":%q,"num_gpu_blocks":60,"block_size":16,"max_num_batched_tokens":512}`, engine)
	args, err := engineargs.Parse([]byte(text), engineargs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 250, Input: 200, Output: 60, Interval: 20, Turns: 2, Delay: 5},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(args, 3), Router: policy.KV},
	}
	if twoPools {
		prefill, decode := args, args
		prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
		prefill.KVBytesPerToken, prefill.TransferGBPerSecond = 100_000, 10
		spec.Pools = replay.TwoPools(replay.Pool{Engine: prefill, Count: 1}, replay.Pool{Engine: decode, Count: 1})
	}
	return spec
}

// An observer behind a relay receives the same calls as one in front of it.
func TestShowsTheSame(t *testing.T) {
	lost, handoffs := 0, 0
	for _, engine := range []string{"vllm", "sglang"} {
		for _, two := range []bool{false, true} {
			behind := &diary{}
			b := both{&diary{}, relay.New(behind)}
			spec := small(t, engine, two)
			if _, err := spec.Run(context.Background(), replay.Streams{Observer: b, KVEvents: true}); err != nil {
				t.Fatal(err)
			}
			b.later.Close()
			b.later.Close() // a second Close has no effect
			if n := len(b.now.lines); n < 5000 {
				t.Errorf("%s: %d calls, want enough for several batches", engine, n)
			}
			if !slices.Equal(behind.lines, b.now.lines) {
				t.Errorf("%s, two pools %v: %d calls in front, %d behind, not all the same", engine, two, len(b.now.lines), len(behind.lines))
			}
			for _, line := range behind.lines {
				if strings.HasPrefix(line, "handoff") {
					handoffs++
				}
				if strings.HasPrefix(line, "pass") && !strings.Contains(line, "Lost:[]") {
					lost++
				}
			}
		}
	}
	if lost == 0 || handoffs == 0 {
		t.Errorf("%d passes lost a request, %d handoffs, want some of both", lost, handoffs)
	}
}

// grumpy panics at the first pass.
type grumpy struct{ diary }

func (*grumpy) Pass(scheduler.Role, sim.WorkerID, *scheduler.Pass) { panic("enough") }

// Close of the relay repeats a panic of the observer. The replay continues.
func TestPanic(t *testing.T) {
	r := relay.New(&grumpy{})
	spec := small(t, "vllm", false)
	if _, err := spec.Run(context.Background(), replay.Streams{Observer: r}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if got := recover(); got != "enough" {
			t.Errorf("Close panicked with %v, want the observer's own panic", got)
		}
	}()
	r.Close()
	t.Error("Close did not panic")
}
