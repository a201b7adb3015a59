package policy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Picker is how the router of an inference pool chooses, by its EndpointPickerConfig: each worker has the sum of weighted scores,
// each from 0 to 1, and one is drawn by them.
type Picker struct {
	Filters []Filter `json:",omitempty"` // what each leaves, the next one sees
	Scorers []Scorer
	Draw    Draw
	Gate    *router.Gate // flow control; nil: none
	// InFlight counts prompt tokens to compute; nil if nothing reads them.
	InFlight *InFlight `json:",omitempty"`
	// Decode is how decode workers are chosen; nil: as all other workers.
	Decode *Profile `json:",omitempty"`
	// Idle are plugins of the configuration that change nothing here, and why.
	Idle []string `json:",omitempty"`
}

// Profile is what a Picker does differently for decode workers.
type Profile struct {
	Filters  []Filter
	Scorers  []Scorer
	Draw     Draw
	InFlight *InFlight
}

// OnDecode returns how decode workers are chosen.
func (p *Picker) OnDecode() *Picker {
	if d := p.Decode; d != nil {
		return &Picker{Filters: d.Filters, Scorers: d.Scorers, Draw: d.Draw, InFlight: d.InFlight}
	}
	return p
}

// Draw is how a worker is drawn by the scores, by llm-d's name.
type Draw string

const (
	MaxScore       Draw = "max-score-picker"       // the highest score; among equals any
	WeightedRandom Draw = "weighted-random-picker" // as probable as the score is high
	AnyScore       Draw = "random-picker"          // any worker, whatever its score
)

// Draws returns all ways to draw.
func Draws() []Draw { return []Draw{MaxScore, WeightedRandom, AnyScore} }

// PickerName is the name in reports of a router that is a Picker.
const PickerName Name = "llm-d"

// picker is the policy of a Picker.
type picker struct {
	Picker
	known
	filters []filter
	scorers []scorer
	rand    *rand.Rand
	totals  []float64 // of each candidate
	ties    []sim.WorkerID
	shown   router.Candidates
	kept    [2][]sim.WorkerID // by filters in turn
}

// NewPicker returns a policy by a Picker, for the pool that o names.
func NewPicker(p Picker, o Options) router.Policy {
	if o.Role == scheduler.Decode {
		p = *p.OnDecode()
	}
	p.Decode = nil // of another pool
	all := &picker{Picker: p, rand: newRand(o), known: known{blockTokens: int64(o.BlockTokens)}}
	if p.InFlight != nil {
		all.charge = all.matchOf(p.InFlight.Match, p.InFlight.Prefix, o)
	}
	for _, f := range p.Filters {
		all.filters = append(all.filters, filter{f, all.matchOf(f.Match, f.Prefix, o)})
		all.noteSessions(f.Kind == SessionFilter)
	}
	for _, s := range p.Scorers {
		all.scorers = append(all.scorers, scorer{Scorer: s, match: all.matchOf(cmp.Or(s.Match, s.Kind), s.Prefix, o)})
		all.noteSessions(s.Kind == SessionAffinity)
	}
	return all
}

// noteSessions remembers where requests of sessions go, where anything reads that.
func (p *picker) noteSessions(looked bool) {
	if looked && p.last == nil {
		p.last = map[int32]sim.WorkerID{}
	}
}

// String describes the scorers with their weights, how a worker is drawn, and what changes
// nothing here.
func (p *Picker) String() string { return p.Describe(router.Signals{}) }

// Describe is String, without a word on metrics if signals are described separately.
func (p *Picker) Describe(signals router.Signals) string {
	text := p.describeChoice()
	if p.Decode != nil {
		text = "prefill workers: " + text + "; decode workers: " + p.OnDecode().describeChoice() +
			"; requests count on prefill workers until their prompts are computed, and prompt tokens on decode workers that compute them (llm-d: both until the first token)"
	}
	if signals == (router.Signals{}) && p.readsMetrics() {
		text += fmt.Sprintf("; metrics are read every %v ms, %v ms old", router.Scrape, router.Lag)
	}
	if len(p.Idle) > 0 {
		text += "; without effect: " + strings.Join(p.Idle, ", ")
	}
	return text
}

// describeChoice describes how a worker of one pool is chosen.
func (p *Picker) describeChoice() string {
	var parts []string
	for i := range p.Filters {
		parts = append(parts, p.Filters[i].describe())
	}
	for i := range p.Scorers {
		s := &p.Scorers[i]
		text := fmt.Sprintf("%s %v", s.Kind, s.Weight)
		if s.Kind == PrecisePrefix && s.Relative {
			text += " (between the fewest and the most)"
		}
		if s.Speculative > 0 {
			text += fmt.Sprintf(" (what is sent counts for %v ms)", s.Speculative)
		}
		parts = append(parts, text)
	}
	text := strings.Join(append(parts, string(p.Draw)), ", ")
	if p.Gate != nil {
		text += ", flow control"
		if !p.Gate.ReadsMetrics() {
			text += " by what was sent"
		}
		if p.Gate.Ceilings != nil {
			text += ", less urgent priorities held first"
		}
	}
	return text
}

// readsMetrics reports whether anything reads what workers report of themselves.
func (p *Picker) readsMetrics() bool {
	return p.Decode != nil && p.OnDecode().readsMetrics() || p.Gate != nil && p.Gate.ReadsMetrics() || slices.ContainsFunc(p.Scorers, func(s Scorer) bool { return s.Kind.readsMetrics() }) ||
		slices.ContainsFunc(p.Filters, func(f Filter) bool { return f.Kind == UsageLimit })
}

// FollowsCaches reports whether a scorer reads what workers have cached.
func (p *Picker) FollowsCaches() bool {
	return p.Decode != nil && p.OnDecode().FollowsCaches() || slices.ContainsFunc(p.Scorers, func(s Scorer) bool { return cmp.Or(s.Match, s.Kind) == PrecisePrefix }) || p.InFlight != nil && p.InFlight.Match == PrecisePrefix ||
		slices.ContainsFunc(p.Filters, func(f Filter) bool { return f.Match == PrecisePrefix })
}

func (p *picker) Needs() router.Needs {
	counts := p.InFlight != nil
	return router.Needs{Running: true, Tokens: counts, Believes: counts, Overlap: p.FollowsCaches(), Metrics: p.Gate != nil || p.readsMetrics(), Gate: p.Gate}
}

func (p *picker) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	for _, m := range p.matches {
		m.find(q, c)
	}
	all := c
	for i := range p.filters {
		kept := &p.kept[i%2]
		*kept = p.filters[i].keep(q, c, &p.known, p.rand, (*kept)[:0])
		p.shown = *c
		p.shown.Workers, c = *kept, &p.shown
	}
	p.totals = p.totals[:0]
	for range c.Workers {
		p.totals = append(p.totals, 0)
	}
	for i := range p.scorers {
		p.scorers[i].addScores(q, c, &p.known, p.totals)
	}
	w := p.draw(c.Workers)
	p.note(q, all, w)
	for i := range p.scorers {
		p.scorers[i].noteCold(w)
	}
	choice := router.Choice{Worker: w, Second: router.None}
	if p.charge != nil {
		choice.Cached = p.charge.found[w]
	}
	return choice
}

// draw returns one of the workers by their totals.
func (p *picker) draw(workers []sim.WorkerID) sim.WorkerID {
	sum := 0.0
	for _, x := range p.totals {
		sum += x
	}
	switch {
	case p.Draw == AnyScore || p.Draw == WeightedRandom && sum == 0:
		return workers[p.rand.IntN(len(workers))]
	case p.Draw == WeightedRandom:
		return drawWeighted(workers, p.totals, sum, p.rand)
	}
	return drawHighest(workers, p.totals, &p.ties, p.rand)
}

// drawHighest returns any of the workers of the highest total; ties is room for them.
func drawHighest(workers []sim.WorkerID, totals []float64, ties *[]sim.WorkerID, r *rand.Rand) sim.WorkerID {
	best, all := totals[0], (*ties)[:0]
	for i, w := range workers {
		switch x := totals[i]; {
		case x > best:
			best, all = x, append(all[:0], w)
		case x == best:
			all = append(all, w)
		}
	}
	if *ties = all; len(all) == 1 {
		return all[0]
	}
	return all[r.IntN(len(all))]
}

// drawWeighted returns a worker as probable as its total is of the sum of all, which is > 0.
func drawWeighted(workers []sim.WorkerID, totals []float64, sum float64, r *rand.Rand) sim.WorkerID {
	at, last := float64(r.Float64()*sum), 0
	for i, x := range totals {
		if x > 0 {
			last = i
			if at < x {
				break
			}
		}
		at -= x
	}
	return workers[last]
}
