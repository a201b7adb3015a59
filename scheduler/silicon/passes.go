package silicon

import (
	"math"
	"sync/atomic"

	"github.com/replay-llm/replay/scheduler/optables"
)

// Ladders of the tables and their largest values.
const (
	byTokens   ladder = 3
	byRequests ladder = 2
	byLength   ladder = 2

	mostTokens   = 1 << 16
	mostRequests = 1 << 12
	mostPrompts  = 1 << 8
	mostLength   = 1 << 18
)

// Passes are the times of passes of a model on GPUs, in tables that are filled on demand. All times are in ms,
// interpolated linearly between the rungs of ladders.
type Passes struct {
	decode, mixed *table // operators except attention by number of tokens, for passes that only decode and for other passes
	head          *table // time of the head by number of requests
	generation    grid
	lines         [mostKept]atomic.Pointer[lines] // lines of generation by number of requests
	// Square roots of the times of whole prompts, by number of prompts and length: for layers with full attention,
	// and for layers with a window.
	full, windowed grid
	hybrid         hybrid
	window         float64
	rotation       float64
	stages         float64
	Layers         int
	Shapes         Shapes
}

// Shapes counts the operators of a decode pass and of a prompt pass by the source of their times.
type Shapes struct {
	All, Interpolated, Filled int
}

// NewPasses returns the times for passes of c.
func NewPasses(c *Composer) *Passes {
	p := &Passes{Layers: c.fit.Model.Layers, rotation: Sum(c.Rotation()), stages: float64(c.fit.PP)}
	p.decode = newTable(byTokens, mostTokens, func(x int) float64 { return Sum(c.Linear(x, false)) })
	p.mixed = p.decode
	if e := c.fit.Model.MoE; e != nil && e.Shared > 0 {
		p.mixed = newTable(byTokens, mostTokens, func(x int) float64 { return Sum(c.Linear(x, true)) })
	}
	p.head = newTable(byRequests, mostRequests, func(n int) float64 { return Sum(c.Head(n)) })
	p.generation = newGrid(mostRequests, func(n, length int) float64 { return Sum(c.Decode(n, length)) })
	p.hybrid = newHybrid(c)
	for _, k := range c.kinds() {
		if c.fit.Model.Indexer != nil {
			break
		}
		times := newGrid(mostPrompts, func(n, length int) float64 { return math.Sqrt(max(c.wholePrompts(&k, n, length), 0)) })
		if k.Window > 0 {
			p.windowed, p.window = times, float64(k.Window)
		} else {
			p.full = times
		}
	}
	p.count(c)
	return p
}

// wholePrompts returns the time of a kind of attention for prompts without past tokens.
func (c *Composer) wholePrompts(k *kind, requests, length int) float64 {
	if c.fit.Model.Latent != nil {
		var p parts
		c.promptLatent(&p, requests, length, 0)
		return Sum(p)
	}
	return k.layers * c.tables.Context(k.Attention, requests, length, 0).Ms
}

// count counts the operators of a typical decode pass and a typical prompt pass.
func (p *Passes) count(c *Composer) {
	for _, all := range [][]Part{c.Linear(32, false), c.Head(32), c.Decode(32, 2048), c.Linear(2048, true), c.Prompts(1, 2048, 0)} {
		for i := range all {
			if all[i].Sheet {
				continue
			}
			p.Shapes.All++
			switch all[i].Time.Source {
			case optables.Interpolated:
				p.Shapes.Interpolated++
			case optables.Filled:
				p.Shapes.Filled++
			}
		}
	}
}

// Decode returns the time of a pass that only decodes, without attention.
func (p *Passes) Decode(tokens, requests int) float64 {
	return p.decode.at(tokens) + p.head.at(requests)
}

// Mixed returns the time of a pass that also computes prompts, without attention.
func (p *Passes) Mixed(tokens, requests int) float64 { return p.mixed.at(tokens) + p.head.at(requests) }

// Line is a time that is linear in the number of KV cache tokens that a pass reads, below Most.
type Line struct {
	Base, PerToken float64
	Most           int64
}

// At returns the time for a context in tokens.
func (l *Line) At(context int64) float64 { return l.Base + float64(l.PerToken*float64(context)) }

// Generation returns the attention time of requests that compute one token each. context is the total number of KV
// cache tokens that they read.
func (p *Passes) Generation(requests int, context int64) Line {
	n := max(requests, 1)
	last := len(p.generation[0].cells) - 2
	rung := min(byLength.below(int(context/int64(n))), last)
	if n >= mostKept {
		return p.line(n, rung)
	}
	kept := p.lines[n].Load()
	if kept == nil {
		fresh := make(lines, last+1)
		kept = &fresh
		p.lines[n].CompareAndSwap(nil, kept)
	}
	cell := &(*kept)[rung]
	if each := cell.perToken.Load(); each != 0 { // perToken is stored after base
		return Line{math.Float64frombits(cell.base.Load()), math.Float64frombits(each), p.most(n, rung)}
	}
	l := p.line(n, rung)
	cell.base.Store(math.Float64bits(l.Base))
	cell.perToken.Store(math.Float64bits(l.PerToken))
	return l
}

// mostKept limits the number of requests for which lines are cached.
const mostKept = 1 << 10

// lines are the lines for one number of requests, by rung of their mean length. Each line is computed at first use,
// by any number of goroutines with the same result.
type lines []struct{ base, perToken atomic.Uint64 }

// most returns the context at which the line of a rung ends.
func (p *Passes) most(requests, rung int) int64 {
	if rung == len(p.generation[0].cells)-2 {
		return math.MaxInt64
	}
	return int64(byLength.at(rung+1)) * int64(requests)
}

// line returns the line of a rung.
func (p *Passes) line(requests, rung int) Line {
	row, share := byRequests.segment(len(p.generation), requests)
	a, b := p.generation[row], p.generation[row+1]
	at := func(i int) float64 {
		if share == 0 {
			return a.value(i)
		}
		return a.value(i) + float64(share*(b.value(i)-a.value(i)))
	}
	low, high := int64(byLength.at(rung))*int64(requests), int64(byLength.at(rung+1))*int64(requests)
	l := Line{Most: p.most(requests, rung)}
	l.PerToken = (at(rung+1) - at(rung)) / float64(high-low)
	l.Base = at(rung) - float64(l.PerToken*float64(low))
	return l
}

// Prompts returns the attention time of prompts. tokens is the total over the requests, and pairs counts pairs of a
// new and an earlier token. All prompts of a pass are assumed to be equal.
func (p *Passes) Prompts(requests, tokens int, pairs float64) float64 {
	n := float64(tokens) / float64(requests)
	past := max(pairs/float64(tokens)-n/2, 0)
	length := int(past + n + 0.5)
	total := 0.0
	if p.full != nil {
		total += wholeAt(p.full, requests, length) * shareOf(n, past, 0)
	}
	if p.windowed != nil {
		total += wholeAt(p.windowed, requests, length) * shareOf(n, past, p.window)
	}
	total += p.hybrid.prompts(requests, n, past)
	// A short chunk takes at least the time to read its KV cache.
	read := p.Generation(requests, int64(requests)*int64(length))
	return max(total, read.At(int64(requests)*int64(length)))/p.stages + p.rotation
}

// wholeAt returns the time of whole prompts. The square root of this time is interpolated linearly in the length.
func wholeAt(roots grid, requests, length int) float64 {
	row, share := byRequests.segment(len(roots), requests)
	a := roots[row].at(length)
	if a = float64(a * a); share == 0 {
		return a
	}
	b := roots[row+1].at(length)
	return a + float64(share*(float64(b*b)-a))
}
