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

// Picker is the configuration of the router of an inference pool, from its EndpointPickerConfig. Each worker gets the
// sum of weighted scores, each from 0 to 1, and the sums determine the choice.
type Picker struct {
	Filters []Filter `json:",omitempty"` // each filter gets the workers that the one before keeps
	Scorers []Scorer
	Draw    Draw
	Gate    *router.Gate // flow control; nil: none
	// InFlight configures the count of prompt tokens to compute; nil: not used.
	InFlight *InFlight `json:",omitempty"`
	// Decode is the choice of decode workers; nil: the same as for other workers.
	Decode *Profile `json:",omitempty"`
	// Idle is the plugins of the configuration that have no effect here, with the reasons.
	Idle []string `json:",omitempty"`
}

// Profile is the settings of a Picker that differ for decode workers.
type Profile struct {
	Filters  []Filter
	Scorers  []Scorer
	Draw     Draw
	InFlight *InFlight
}

// OnDecode returns the Picker of decode workers.
func (p *Picker) OnDecode() *Picker {
	if d := p.Decode; d != nil {
		return &Picker{Filters: d.Filters, Scorers: d.Scorers, Draw: d.Draw, InFlight: d.InFlight}
	}
	return p
}

// Draw is the selection of a worker by the scores, by llm-d's name.
type Draw string

const (
	MaxScore       Draw = "max-score-picker"       // the highest score; random among equals
	WeightedRandom Draw = "weighted-random-picker" // with a probability proportional to the score
	AnyScore       Draw = "random-picker"          // a random worker, regardless of scores
)

// Draws returns all kinds of Draw.
func Draws() []Draw { return []Draw{MaxScore, WeightedRandom, AnyScore} }

// PickerName is the name in reports of a router with a Picker.
const PickerName Name = "llm-d"

// picker is the policy of a Picker.
type picker struct {
	Picker
	known
	filters []filter
	scorers []scorer
	rand    *rand.Rand
	totals  []float64 // by candidate
	ties    []sim.WorkerID
	shown   router.Candidates
	kept    [2][]sim.WorkerID // scratch of two filters in turn
}

// NewPicker returns the policy of a Picker for the pool of o.
func NewPicker(p Picker, o Options) router.Policy {
	if o.Role == scheduler.Decode {
		p = *p.OnDecode()
	}
	p.Decode = nil // for another pool
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

// noteSessions makes the picker remember the workers of sessions if looked is set.
func (p *picker) noteSessions(looked bool) {
	if looked && p.last == nil {
		p.last = map[int32]sim.WorkerID{}
	}
}

// String returns a description of the filters, the scorers with their weights, the selection, and the plugins without
// effect.
func (p *Picker) String() string { return p.Describe(router.Signals{}) }

// Describe returns the description of String. Describe omits the interval of metrics if signals are described
// separately.
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

// describeChoice describes the choice of a worker in one pool.
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

// readsMetrics reports whether a part reads the metrics of workers.
func (p *Picker) readsMetrics() bool {
	return p.Decode != nil && p.OnDecode().readsMetrics() || p.Gate != nil && p.Gate.ReadsMetrics() || slices.ContainsFunc(p.Scorers, func(s Scorer) bool { return s.Kind.readsMetrics() }) ||
		slices.ContainsFunc(p.Filters, func(f Filter) bool { return f.Kind == UsageLimit })
}

// FollowsCaches reports whether a part reads the cached blocks of workers.
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

// draw returns one of the workers by p.totals.
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

// drawHighest returns a random worker among those workers with the highest total. ties is scratch memory.
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

// drawWeighted returns a worker with a probability proportional to its total. sum is the sum of the totals, > 0.
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
