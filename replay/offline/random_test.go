package offline

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// coarse is a timing model with few different durations, so that passes of different workers begin and end at the
// same instants.
type coarse struct {
	prefill, decode []float64 // ms, by the size of the batch; the last value for all larger batches
	perPage         float64   // further ms for every page of tokens in use
	perContext      int       // decoding takes 1 ms longer if context/perContext is odd; 0: never
	free            int       // decoding takes no time if the pages in use are a multiple of this; 0: never
}

const page = 16 // tokens

func (m coarse) Prefill(batch, _, _ int) float64 { return m.prefill[min(batch, len(m.prefill))-1] }

func (m coarse) Decode(batch, active, context, _ int) float64 {
	pages := active / page
	if m.free > 0 && pages%m.free == 0 {
		return 0
	}
	more := 0.0
	if m.perContext > 0 {
		more = float64(context / m.perContext % 2)
	}
	return m.decode[min(batch, len(m.decode))-1] + float64(m.perPage*float64(pages)) + more
}

func (m coarse) ByContext() bool { return m.perContext > 0 }

// draw makes random trials.
type draw struct {
	*rand.Rand
	block int // tokens per KV block; larger blocks give longer runs of passes
	// coinciding makes many events coincide: long answers, an arrival at every millisecond, many workers, passes that
	// take 1 ms or no time.
	coinciding bool
}

func newDraw(seed int) draw {
	d := draw{Rand: rand.New(rand.NewPCG(uint64(seed), 1))}
	d.block, d.coinciding = pick(d, 4, 4, 32, 32, 2), d.oneIn(2)
	return d
}

func pick[T any](d draw, choices ...T) T { return choices[d.IntN(len(choices))] }

// oneIn returns true with the probability 1/n.
func (d draw) oneIn(n int) bool { return d.IntN(n) == 0 }

// trial draws a replay and returns it with the text of its trace.
func (d draw) trial(t testing.TB) (*trial, string) {
	text := d.trace()
	x := &trial{cfg: Config{Config: harness.Config{
		Workload: mooncake(t, text, pick(d, d.block, d.block, d.block, 2*d.block, d.block+2)),
		Topology: engines.Topology{Compat: !d.oneIn(3)},
	}}}
	d.admission(x)
	d.pools(x)
	d.router(x)
	x.model = d.model()
	if d.oneIn(10) {
		for i := range x.cfg.Pools {
			x.cfg.Pools[i].Engine.Speedup = 1e12 // all passes take no time
		}
	}
	if !x.cfg.Compat && len(text)%3 > 0 {
		d.ownRules(x)
	}
	if !x.cfg.Compat && len(text)%2 > 0 {
		d.lengths(x)
	}
	if len(text)%5 == 0 {
		x.cfg.FrontEnd = &silicon.FrontEnd{Base: float64(len(text) % 4), Token: float64(len(text)%3) / 8}
	}
	return x, text
}

// lengths draws a maximum sequence length of the engines, which some prompts exceed and some answers reach.
func (d draw) lengths(x *trial) {
	t := pick(d, x.cfg.Workload.Turns...)
	for i := range x.cfg.Pools {
		x.cfg.Pools[i].Engine.MaxLength = int(t.Input) + 1 + d.IntN(int(t.Output)+8)
	}
}

func (d draw) admission(x *trial) {
	x.cfg.Admission = loadgen.Admission{Mode: loadgen.Trace, Speedup: pick(d, 1.0, 1, 2, 0.5, 3)}
	if d.oneIn(3) {
		x.cfg.Admission = loadgen.Admission{Mode: loadgen.Concurrency, MaxInFlight: 1 + d.IntN(8)}
	}
}

// trace draws a trace of up to 20 requests at few instants, with prompts of few blocks.
func (d draw) trace() string {
	var text strings.Builder
	n := 1 + d.IntN(pick(d, 3, 8, 20))
	gaps := pick(d, []float64{0}, []float64{0, 0, 1, 2}, []float64{0, 2, 4, 6}, []float64{0, 0.5, 7.25, 30}, []float64{10, 23.218181})
	sessions := 0
	if d.oneIn(2) {
		sessions = 1 + d.IntN(4)
	}
	long := d.oneIn(3)
	if d.coinciding {
		n, gaps, long = 4+d.IntN(20), pick(d, []float64{0, 1}, []float64{0, 0, 1, 3}), true
	}
	now := 0.0
	for range n {
		now += pick(d, gaps...)
		blocks := 1 + d.IntN(pick(d, 2, 6))
		ids := make([]string, blocks)
		for i := range ids {
			ids[i] = fmt.Sprint(i*10 + d.IntN(pick(d, 1, 2, 4)))
		}
		output := 1 + d.IntN(6)
		if long {
			output = 1 + d.IntN(60)
		}
		fmt.Fprintf(&text, `{"timestamp":%v,"input_length":%d,"output_length":%d,"hash_ids":[%s]`,
			now, max(1, d.block*blocks-pick(d, 0, 0, 1, 3)), output, strings.Join(ids, ","))
		if sessions > 0 {
			fmt.Fprintf(&text, `,"session_id":"s%d"`, d.IntN(sessions))
		}
		text.WriteString("}\n")
	}
	return text.String()
}

func (d draw) pools(x *trial) {
	most := 0
	for _, t := range x.cfg.Workload.Turns {
		most = max(most, (int(t.Input+t.Output)+d.block-1)/d.block)
	}
	most += pick(d, 0, 1, 3, 10, 200)
	if d.coinciding {
		most = 10_000
	}
	one := engines.Pool{Engine: d.engine(most), Count: 1 + d.IntN(4)}
	if d.oneIn(3) || !d.coinciding && d.oneIn(2) {
		x.cfg.Pools = []engines.Pool{one}
		return
	}
	two := engines.Pool{Engine: d.engine(most), Count: 1 + d.IntN(3)}
	one.Engine.Role, two.Engine.Role = scheduler.Prefill, scheduler.Decode
	if d.oneIn(2) {
		one.Engine.KVBytesPerToken = pick(d, 1_000_000/d.block, 2_000_000/d.block, 333) // 1 or 2 ms per block
		one.Engine.TransferGBPerSecond = pick(d, 1.0, 0.5, 2)
	}
	x.cfg.Pools = engines.TwoPools(one, two)
}

// engine draws engine arguments with the given number of blocks.
func (d draw) engine(blocks int) engineargs.Args {
	a := engineargs.Default()
	a.BlockTokens = d.block
	a.Blocks = blocks
	a.MaxSeqs = pick(d, 1, 2, 3, 256, 256)
	a.MaxBatchedTokens = pick(d, 4, 7, 16, 64, 8192, 8192, engineargs.Unlimited)
	a.PrefixCaching = !d.oneIn(5)
	a.ChunkedPrefill = !d.oneIn(8)
	a.Preemption = pick(d, vllm.LIFO, vllm.FIFO)
	a.QueuePolicy = pick(d, "", "", "lcfs")
	if d.oneIn(6) {
		a.G2 = engineargs.G2{Blocks: 1 + d.IntN(20), BatchBlocks: 1 + d.IntN(4), ToHostGBPerSec: pick(d, 0.5, 14), ToGPUGBPerSec: pick(d, 0.5, 14)}
		a.KVBytesPerToken = 1_000_000 / d.block
	}
	if d.oneIn(5) {
		a.Engine = engineargs.SGLang
		a.SGLang.Policy = pick(d, "fifo", "lpm")
		a.SGLang.MaxPrefillTokens = pick(d, 32, 64, 16384)
		a.SGLang.ChunkTokens = d.block * pick(d, 1, 2, 64)
	}
	return a
}

func (d draw) router(x *trial) {
	if d.oneIn(2) {
		return
	}
	c := router.DefaultConfig()
	threshold := pick(d, 0.0, 0.25, 1, 4)
	c.QueueThreshold = &threshold
	if d.oneIn(4) {
		c.QueueThreshold = nil
	}
	c.QueuePolicy = pick(d, router.FCFS, router.LCFS, router.WSPT)
	c.OverlapScoreCredit = pick(d, 1.0, 0.5, 0)
	c.AssumeKVReuse = !d.oneIn(4)
	c.TrackActiveBlocks = !d.oneIn(4)
	c.TrackPrefillTokens = !d.oneIn(4)
	c.Temperature = pick(d, 0.0, 0, 0, 0.5)
	x.cfg.Router = policy.KV.Configure(&c)
}

// model draws a timing model with durations that often coincide and are sometimes zero, or nil for the models of the
// engines.
func (d draw) model() timing.Model {
	if d.coinciding {
		return coarse{prefill: pick(d, []float64{1}, []float64{0}, []float64{1, 0}), decode: []float64{1}, free: pick(d, 0, 2, 3, 5)}
	}
	switch d.IntN(10) {
	case 0:
		return nil
	case 1:
		return coarse{prefill: []float64{1}, decode: []float64{1}, perPage: 1}
	case 2:
		return coarse{prefill: []float64{2, 0}, decode: []float64{1, 0, 1}}
	case 3:
		return coarse{prefill: []float64{0}, decode: []float64{2}}
	case 4:
		return coarse{prefill: []float64{3, 2}, decode: []float64{0}}
	case 5:
		return coarse{prefill: []float64{0.1, 0.3}, decode: []float64{0.1}} // inexact sums
	case 6:
		return coarse{prefill: []float64{0}, decode: []float64{1}, free: 2}
	case 7:
		return coarse{prefill: []float64{1, 0}, decode: []float64{1}, free: 3}
	}
	return coarse{prefill: []float64{2, 4}, decode: []float64{1, 2}}
}

// ownRules makes vLLM's engines follow vLLM's own rules, mostly with passes that take longer and longer.
func (d draw) ownRules(x *trial) {
	for i := range x.cfg.Pools {
		e := &x.cfg.Pools[i].Engine
		if e.G2.Blocks > 0 {
			continue
		}
		e.Rules = pick(d, releases.Rules019, releases.Rules033)()
		e.Rules.TwoInFlight = !d.oneIn(3)
		e.Blocks++ // one block is reserved
		e.QueuePolicy = ""
	}
	if m, ok := x.model.(coarse); ok && !d.oneIn(3) {
		m.perContext = pick(d, 1, 3, 20)
		x.model = m
	}
}

// show returns a readable description of a trial.
func (x *trial) show(text string) string {
	var b strings.Builder
	c := &x.cfg
	fmt.Fprintf(&b, "%strace blocks of %d tokens, %v, %+v\n", text, c.Workload.TraceBlock, c.Router, c.Admission)
	for _, p := range c.Pools {
		fmt.Fprintf(&b, "%d workers: %+v\n", p.Count, p.Engine)
	}
	if kv, ok := c.Router.(*policy.Configured); ok {
		fmt.Fprintf(&b, "router: %+v\n", kv.Config)
		if kv.Config.QueueThreshold != nil {
			fmt.Fprintf(&b, "threshold: %v\n", *kv.Config.QueueThreshold)
		}
	}
	fmt.Fprintf(&b, "faults: %+v, sizes: %+v, admission: %+v, reject: %v, speeds: %v\n", c.Faults, c.Scale, c.Topology.Admission, c.Reject, c.WorkerSpeeds)
	if c.Autoscales() {
		fmt.Fprintf(&b, "autoscalers: %+v\n%+v\n", c.Autoscale, c.AutoscaleDecode)
	}
	fmt.Fprintf(&b, "model: %+v\n", x.model)
	return b.String()
}
