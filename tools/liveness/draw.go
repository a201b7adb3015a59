package main

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/tools/draw"
)

// trial is one random replay.
type trial struct {
	draw.Workload
	spec  replay.Spec // the trace is its standard input
	steps int         // number of planner steps; 0: no planner
}

// allTags lists the tags that a trial may have.
func allTags() []string {
	return []string{
		"vllm", "sglang", "alone", "pool", "kv", "disagg", "transfer", "flat", "sessions", "synthetic", "agentic",
		"trace", "concurrency", "queue", "scale", "steps", "reject", "until", "compat", "offload", "oversize", "speed",
		"fifo", "uncached", "unchunked", "digits", "straddle", "tight", "ranks", "windows", "order", "own", "drafts", "host",
		"faults", "autoscale", "admission", "trtllm",
	}
}

// String returns a readable description of x.
func (x *trial) String() string {
	s := &x.spec
	return fmt.Sprintf("%s%s\ncompat %v, scale %v, steps %d, reject %v, until %v\nfaults %+v\nautoscalers %+v %+v\nadmission %+v\n",
		x.Trace, strings.Join(x.Args, " "), s.Compat, s.Scale, x.steps, s.Reject, float64(s.Until), s.Faults, s.Autoscale, s.AutoscaleDecode, s.Topology.Admission)
}

// drawTrial returns the trial of a seed.
func drawTrial(seed uint64) *trial {
	d := draw.NewTiny(seed)
	compat := d.Chance(3)
	if compat {
		d.Tags.Add("compat")
	}
	path := ""
	if d.Trace != "" {
		path = "-"
	}
	x := &trial{}
	var err error
	if x.spec, err = reference.Parse(d.Args, path, compat); err != nil {
		panic(fmt.Sprintf("seed %d draws %v", seed, err))
	}
	x.spec.Seed = seed
	x.drawEnd(d)
	x.drawRanks(d)
	x.drawWindows(d)
	x.drawOrder(d)
	x.drawOwn(d)
	x.drawDrafts(d)
	x.drawHost(d)
	x.drawTRTLLM(d)
	x.drawLife(d)
	x.Workload = d.Workload
	return x
}

// drawOwn draws options of SGLang's rules.
func (x *trial) drawOwn(d *draw.Drawer) {
	if x.spec.Compat || !d.Tags.Has("sglang") || d.Chance(3) {
		return
	}
	d.Tags.Add("own")
	for i := range x.spec.Pools {
		a := &x.spec.Pools[i].Engine
		s := &a.SGLang
		if !d.Tags.Has("order") {
			s.Policy = draw.Pick(d.Rand, s.Policy, "lpm", "lof", "hrrn")
		}
		s.NoOverlap, s.MixedChunk, s.IgnoreEOS = d.Chance(2), d.Chance(3), d.Chance(3)
		s.PrefillRequests, s.MaxRunning = draw.Pick(d.Rand, 0, 0, 1, 2), draw.Pick(d.Rand, 0, 0, 1, 2, 5)
		s.LogInterval = draw.Pick(d.Rand, 1, 3, 40)
		if !d.Tags.Has("order") { // some orders require a prefix cache
			a.PrefixCaching = !d.Chance(4)
		}
	}
}

// drawRanks makes the workers of some SGLang engines run in lockstep.
func (x *trial) drawRanks(d *draw.Drawer) {
	if x.spec.Compat || !d.Tags.Has("sglang") || !d.Chance(3) {
		return
	}
	d.Tags.Add("ranks")
	for i := range x.spec.Pools {
		a := &x.spec.Pools[i].Engine
		a.DPSize = 2 + d.IntN(2)
		a.SGLang.ChunkTokens *= a.DPSize
		a.SGLang.LoadBalance = draw.Pick(d.Rand, "auto", "total_requests", "total_tokens")
	}
}

// drawHost adds host memory to some SGLang engines.
func (x *trial) drawHost(d *draw.Drawer) {
	if x.spec.Compat || !d.Tags.Has("sglang") || d.Tags.Has("ranks") || d.Tags.Has("windows") || d.Tags.Has("drafts") {
		return
	}
	d.Tags.Add("host")
	for i := range x.spec.Pools {
		p := &x.spec.Pools[i]
		a := &p.Engine
		if p.Role == scheduler.Decode || !a.PrefixCaching {
			continue
		}
		a.SGLang.Eviction.Policy = 0 // the remaining eviction policies do not support host memory
		a.SGLang.HiCache = engineargs.HiCacheArgs{
			On: true, Ratio: draw.Pick(d.Rand, 0.1, 0.5, 1, 2), Layers: draw.Pick(d.Rand, 0, 1, 4),
			Policy: draw.Pick(d.Rand, "write_through", "write_through_selective", "write_back"),
		}
		if h := &a.SGLang.HiCache; h.Policy != "write_back" && d.Chance(2) {
			h.Storage = engineargs.StorageArgs{
				Backend: "sim", Policy: draw.Pick(d.Rand, "", "best_effort", "wait_complete"), Threshold: draw.Pick(d.Rand, 1, 64, 256),
				Timeout: draw.Pick(d.Rand, 0, 0.1, 1), TimeoutPerKiToken: 0.25,
			}
			a.G2.ToStorageGBPerSec, a.G2.FromStorageGBPerSec = draw.Pick(d.Rand, 0, 0.1, 5), draw.Pick(d.Rand, 0, 0.1, 5)
		}
		a.KVBytesPerToken = draw.Pick(d.Rand, 100, 100_000, 10_000_000)
		a.G2.ToHostGBPerSec, a.G2.ToGPUGBPerSec = draw.Pick(d.Rand, 0, 0.1, 14), draw.Pick(d.Rand, 0, 0.1, 14)
	}
}

// drawEnd draws an early end of the replay, and changes of its pools.
func (x *trial) drawEnd(d *draw.Drawer) {
	if d.Chance(2) {
		x.spec.Reject = true
		d.Tags.Add("reject")
	}
	switch {
	case x.spec.Mode == loadgen.Trace && d.Chance(6):
		x.steps = 1 + d.IntN(8)
		d.Tags.Add("steps")
		return
	case d.Chance(3):
		d.Tags.Add("scale")
		at := 0
		for range 1 + d.IntN(5) {
			at += d.IntN(100)
			e := replay.ScaleEvent{At: sim.Time(at), Workers: 1 + d.IntN(4), Decode: replay.KeepSize}
			if len(x.spec.Pools) == 2 && d.Chance(2) {
				e.Workers, e.Decode = draw.Pick(d.Rand, e.Workers, replay.KeepSize), 1+d.IntN(3)
			}
			x.spec.Scale = append(x.spec.Scale, e)
		}
	}
	if d.Chance(5) {
		x.spec.Until = sim.Time(1 + d.IntN(500))
		d.Tags.Add("until")
	}
}

// drawWindows gives window layers a separate pool with very little room.
func (x *trial) drawWindows(d *draw.Drawer) {
	if x.spec.Compat || !d.Tags.Has("sglang") || !d.Chance(3) {
		return
	}
	d.Tags.Add("windows")
	for i := range x.spec.Pools {
		a := &x.spec.Pools[i].Engine
		a.SGLang.WindowShare = draw.Pick(d.Rand, 0.25, 0.5, 0.9, 1)
		pages := int(float64(a.Blocks) * a.SGLang.WindowShare)
		if room := (pages-1)*a.BlockTokens - 1; room > 0 {
			a.SGLang.Window = 1 + d.IntN(min(room, draw.Pick(d.Rand, 8, 64, 1000)))
		}
	}
}

// drawDrafts enables speculative decoding in some SGLang engines.
func (x *trial) drawDrafts(d *draw.Drawer) {
	if x.spec.Compat || !d.Tags.Has("sglang") || d.Tags.Has("ranks") || d.Tags.Has("windows") || d.Chance(2) {
		return
	}
	d.Tags.Add("drafts")
	rate := draw.Pick(d.Rand, 0, 0.5, 0.9, 1)
	for i := range x.spec.Pools {
		a := &x.spec.Pools[i].Engine
		drafts, law := &a.SGLang.Drafts, &engineargs.Speculative{}
		drafts.Algorithm = draw.Pick(d.Rand, scheduler.ByHead, scheduler.ByDraftModel, scheduler.ByLookup)
		drafts.Steps, drafts.TopK = 1+d.IntN(4), 1+d.IntN(2)
		drafts.Tokens = 2 + d.IntN(2*drafts.Steps)
		law.Method, law.Tokens, law.Low, law.High = drafts.Algorithm, drafts.Depth(), rate, rate
		a.Speculative = law
	}
}
