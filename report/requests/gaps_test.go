package requests

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// engine generates passes in which requests get tokens, are preempted or are left out. engine records the longest gap
// of each request.
type engine struct {
	r       *rand.Rand
	rec     *Recorder
	now     sim.Time
	running []*asked
	waiting []*asked // without a place
	all     []*asked
}

type asked struct {
	id      sim.RequestID
	left    int
	tokens  int
	latest  sim.Time
	recent  bool // it gained a token in the latest pass
	longest sim.Time
}

func (e *engine) arrive(q *asked) {
	q.id = sim.RequestID(len(e.all))
	e.all = append(e.all, q)
	e.waiting = append(e.waiting, q)
	e.rec.Arrived(&sim.Request{ID: q.id}, e.now)
}

// step generates one pass; partly allows it to leave out single requests.
func (e *engine) step(partly bool) {
	gap := sim.Time(1 + e.r.IntN(50))
	p := &scheduler.Pass{Start: e.now, Count: 1, Gap: gap, Detail: &scheduler.Detail{}}
	var after []*asked // lose their place with a token of this pass
	if len(e.running) > 0 && e.r.IntN(6) == 0 {
		for range 1 + e.r.IntN(min(3, len(e.running))) {
			i := e.r.IntN(len(e.running))
			v := e.running[i]
			if v.left > 1 && v.recent && v.tokens > 0 && e.r.IntN(3) == 0 && !slices.Contains(after, v) {
				after = append(after, v)
			} else if !slices.Contains(after, v) {
				e.lose(p, v)
			}
		}
	} else if len(e.waiting) > 0 && e.r.IntN(2) == 0 {
		v := e.waiting[0]
		e.waiting = e.waiting[1:]
		e.running = append(e.running, v)
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: v.id})
	} else if e.r.IntN(4) == 0 {
		p.Count = 1 + e.r.IntN(5)
		for _, q := range e.running {
			if !q.recent || q.left <= p.Count || q.tokens < 2 {
				p.Count = 1
			}
		}
	}
	p.End = p.Start + gap*sim.Time(p.Count)
	if p.Count > 1 && e.r.IntN(2) == 0 {
		e.spread(p)
	}
	e.tokens(p, partly)
	for _, v := range after {
		e.lose(p, v)
	}
	e.rec.Pass(scheduler.Aggregated, 0, p)
	e.now = p.End
}

// spread assigns different times to the passes of a run.
func (e *engine) spread(p *scheduler.Pass) {
	p.Gap, p.End = 0, p.Start
	for range p.Count {
		p.End += sim.Time(1 + e.r.IntN(60))
		p.Ends = append(p.Ends, p.End)
	}
}

func (e *engine) lose(p *scheduler.Pass, v *asked) {
	e.running = slices.DeleteFunc(e.running, func(o *asked) bool { return o == v })
	e.waiting = append(e.waiting, v)
	p.Detail.Lost = append(p.Detail.Lost, v.id)
	p.Preempted++
	v.recent = false
}

func (e *engine) tokens(p *scheduler.Pass, partly bool) {
	none := p.Count == 1 && e.r.IntN(8) == 0
	for _, q := range slices.Clone(e.running) {
		if none || (partly && p.Count == 1 && e.r.IntN(20) == 0) {
			q.recent = false
			continue
		}
		switch {
		case q.tokens == 0:
		case q.recent:
			p.Decoding++
			q.longest = max(q.longest, p.Gap)
			for i := range p.Ends {
				q.longest = max(q.longest, p.GapOf(i))
			}
		default:
			p.Gaps = append(p.Gaps, p.End-q.latest)
			p.Detail.Resumed = append(p.Detail.Resumed, q.id)
			q.longest = max(q.longest, p.End-q.latest)
		}
		q.tokens += p.Count
		q.left -= p.Count
		q.latest, q.recent = p.End, true
		if q.tokens == 1 || q.left == 0 {
			p.Marks = append(p.Marks, scheduler.Mark{Request: q.id, First: q.tokens == 1, Last: q.left == 0, Tokens: q.tokens})
		}
		if q.left == 0 {
			e.running = slices.DeleteFunc(e.running, func(o *asked) bool { return o == q })
		}
	}
}

// The longest gaps equal the gaps that the engine recorded, with and without passes that leave out requests.
func TestLongestGaps(t *testing.T) {
	for _, partly := range []bool{false, true} {
		known := 0
		for seed := range uint64(200) {
			e := &engine{r: rand.New(rand.NewPCG(seed, 2)), rec: new(Recorder)}
			for len(e.all) < 40 || len(e.running)+len(e.waiting) > 0 {
				if len(e.all) < 40 && e.r.IntN(3) == 0 {
					e.arrive(&asked{left: 1 + e.r.IntN(12)})
				}
				e.step(partly)
			}
			for _, q := range e.all {
				longest, ok := e.rec.sightOf(q.id).tokens.longestKnown()
				switch {
				case q.tokens == 1 && ok:
					t.Fatalf("seed %d: request %d has one token and a gap of %v", seed, q.id, longest)
				case ok && longest != q.longest:
					t.Fatalf("seed %d: longest gap of request %d is %v, want %v", seed, q.id, longest, q.longest)
				case q.tokens > 1 && !ok:
					t.Fatalf("seed %d: longest gap of request %d is unknown", seed, q.id)
				case q.tokens > 1:
					known++
				}
			}
		}
		if known < 1000 {
			t.Errorf("partly %v: %d gaps, want many", partly, known)
		}
	}
}

// If a scheduler core does not report the requests of its times, the longest gaps are unknown.
func TestBlind(t *testing.T) {
	rec := new(Recorder)
	rec.Arrived(&sim.Request{}, 0)
	for i, p := range []scheduler.Pass{
		{End: 5, Marks: []scheduler.Mark{{First: true}}},
		{Start: 5, End: 9, Gaps: []sim.Time{4}, Marks: []scheduler.Mark{{Last: true}}},
	} {
		p.Count, p.Gap = 1, p.End-p.Start
		rec.Pass(scheduler.Aggregated, 0, &p)
		if _, ok := rec.sightOf(0).tokens.longestKnown(); ok {
			t.Errorf("known after pass %d", i)
		}
	}
}
