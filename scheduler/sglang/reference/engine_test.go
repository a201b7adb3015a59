package reference

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// line is a line of a trace. The prompt of a line without ids is unique.
type line struct {
	at      sim.Time
	in, out int
	ids     []uint64
}

func r(at sim.Time, in, out int, ids ...uint64) line { return line{at, in, out, ids} }

// config returns an engine with default arguments and the given page size and pool.
func config(pageTokens, pages int) sglang.Config {
	return sglang.Config{
		Settings: sglang.Settings{MaxPrefillTokens: 16384, ChunkTokens: 8192, ClipNewTokens: 4096, Conservativeness: 1, LogInterval: 40},
		Pages:    pages, PageTokens: pageTokens, PrefixCaching: true,
		Clock: timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
	}
}

// run is a trace on one engine, driven like by a harness with one worker.
type run struct {
	requests []*sim.Request
	arrivals []sim.Time
	values   [][]uint64 // token values of the prompts that were read
	tokensOf func(request int) []uint64
	first    []sim.Time
	second   []sim.Time
	last     []sim.Time
	admitted []sim.Time
	reused   []int
	tokens   []int
	passes   int
	now      sim.Time
	each     func(p *scheduler.Pass)
}

// newRun makes the requests of a trace and sets their tree in c.
func newRun(c *sglang.Config, traceBlock int, trace []line) *run {
	tree := prompt.NewTree(traceBlock, c.PageTokens, prompt.Options{Wrap: true})
	c.Tree = tree
	n := len(trace)
	x := &run{
		first: make([]sim.Time, n), second: make([]sim.Time, n), last: make([]sim.Time, n),
		admitted: make([]sim.Time, n), reused: make([]int, n), tokens: make([]int, n),
	}
	for i, l := range trace {
		path := prompt.Prompt{Blocks: int32(l.in / c.PageTokens), Seed: int32(i + 1)}
		if l.ids != nil {
			path = tree.Add(l.ids, l.in)
		}
		x.requests = append(x.requests, &sim.Request{
			ID: sim.RequestID(i), InputTokens: l.in, OutputTokens: l.out, Prompt: path, Line: int32(i + 1),
		})
		x.arrivals = append(x.arrivals, l.at)
		x.first[i], x.second[i], x.last[i], x.admitted[i] = -1, -1, -1, -1
		x.values = append(x.values, nil)
	}
	x.tokensOf = func(i int) []uint64 {
		if x.values[i] == nil {
			x.values[i] = tokensOf(i, trace[i], traceBlock)
		}
		return x.values[i]
	}
	c.Tokens = func(r *sim.Request, dst []uint64) []uint64 { return append(dst, x.tokensOf(int(r.ID))...) }
	return x
}

// tokensOf returns the prompt tokens of line i of a trace.
func tokensOf(i int, l line, traceBlock int) []uint64 {
	v := make([]uint64, 0, l.in)
	for k := range l.in {
		if l.ids == nil {
			v = append(v, uint64(prompt.SyntheticToken(i, k)))
		} else {
			v = append(v, uint64(uint32(l.ids[k/traceBlock])))
		}
	}
	return v
}

// play runs the trace on core.
func (x *run) play(core scheduler.Core) error {
	var p scheduler.Pass
	next := 0
	for next < len(x.requests) || core.Load() > 0 {
		if core.Load() == 0 {
			x.now = max(x.now, x.arrivals[next])
		}
		for next < len(x.requests) && x.arrivals[next] <= x.now {
			core.Submit(x.requests[next])
			next++
		}
		if err := core.Step(x.now, x.now, &p); err != nil {
			return err
		}
		x.passes++
		x.collect(&p)
		if x.each != nil {
			x.each(&p)
		}
		x.now = p.End
	}
	return nil
}

func (x *run) collect(p *scheduler.Pass) {
	for _, a := range p.Admitted {
		if x.admitted[a.Request] < 0 {
			x.admitted[a.Request] = p.Start
		}
		x.reused[a.Request] = max(x.reused[a.Request], a.Reused)
	}
	for _, id := range p.Second {
		x.second[id] = p.End
	}
	for _, m := range p.Marks {
		if m.First {
			x.first[m.Request] = p.End
		}
		if m.Last {
			x.last[m.Request], x.tokens[m.Request] = p.End, m.Tokens
		}
	}
}

// ratio returns the share of the prompt tokens that were found in the cache.
func (x *run) ratio() float64 {
	reused, all := 0, 0
	for i, r := range x.requests {
		reused += x.reused[i]
		all += r.InputTokens
	}
	return float64(reused) / float64(all)
}

func mustPlay(t *testing.T, c sglang.Config, traceBlock int, trace []line, each func(*Core, *scheduler.Pass)) *run {
	t.Helper()
	x := newRun(&c, traceBlock, trace)
	core, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if each != nil {
		x.each = func(p *scheduler.Pass) { each(core, p) }
	}
	if err := x.play(core); err != nil {
		t.Fatal(err)
	}
	return x
}

// protected returns the number of tokens in locked nodes, including pages of growing requests that are not in the
// tree yet.
func (c *Core) protected() int {
	n := 0
	for _, x := range c.tree.All() {
		if x.Locks > 0 {
			n += x.Size() * c.PageTokens
		}
	}
	for _, r := range c.running {
		if r.growing {
			n += floorTo(c.lengthOf(r), c.PageTokens) - r.prot
		}
	}
	return n
}

// transcript returns a line per pass: start, admissions (request and reused tokens), signals (request, ! for its last
// token), and end. The line ends with the pool after the pass as free/evictable/protected+own, with own only under
// the default rules.
func transcript(t *testing.T, c sglang.Config, traceBlock int, trace []line) (string, *run) {
	t.Helper()
	var b strings.Builder
	x := mustPlay(t, c, traceBlock, trace, func(core *Core, p *scheduler.Pass) {
		fmt.Fprintf(&b, "%s", num(p.Start))
		for _, a := range p.Admitted {
			fmt.Fprintf(&b, " admit %d:%d", a.Request, a.Reused)
		}
		for _, m := range p.Marks {
			if m.First {
				fmt.Fprintf(&b, " first %d", m.Request)
			}
			if m.Last {
				fmt.Fprintf(&b, " last %d", m.Request)
			}
		}
		if p.Preempted > 0 {
			fmt.Fprintf(&b, " retract %d", p.Preempted)
		}
		fmt.Fprintf(&b, " tokens %d end %s pool %d/%d/%d", p.Tokens, num(p.End), core.free, core.evictableTokens(), core.protected())
		b.WriteByte('\n')
	})
	return b.String(), x
}

func num(t sim.Time) string { return strconv.FormatFloat(float64(t), 'g', -1, 64) }

func same(a, b sim.Time) bool { return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) }
