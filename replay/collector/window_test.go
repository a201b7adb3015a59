package collector_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// within derives the report of a window from the times of all tokens, as the definition requires.
func (n *naive) within(w collector.Window) *collector.Report {
	holds := func(at float64) bool { return at >= float64(w.From) && (w.To == 0 || at < float64(w.To)) }
	own, end := &naive{}, 0.0
	finished, input, output := 0, 0, 0
	var itl, rate []float64
	for _, rec := range n.records {
		if holds(rec.arrival) {
			own.records = append(own.records, rec)
		}
		if len(rec.admit) == 0 || len(rec.tokens) == 0 {
			continue
		}
		last := rec.tokens[len(rec.tokens)-1]
		if end = max(end, last); holds(last) && len(rec.tokens) == rec.out {
			finished++
		}
		if holds(rec.tokens[0]) {
			input += rec.in
		}
		for i, at := range rec.tokens {
			if !holds(at) {
				continue
			}
			output++
			if i == 0 {
				continue
			}
			gap := at - rec.tokens[i-1]
			if itl = append(itl, gap); gap > 0 {
				rate = append(rate, 1000.0/gap)
			}
		}
	}
	if w.To > 0 {
		end = min(end, float64(w.To))
	}
	r := own.report()
	r.DurationMS = max(0, end-float64(w.From))
	s := max(r.DurationMS/1000, 1e-9)
	r.RequestsPerS, r.InputTokensPerS = float64(finished)/s, float64(input)/s
	r.OutputTokensPerS, r.TotalTokensPerS = float64(output)/s, float64(input+output)/s
	r.ITL, r.UserThroughput = describe(itl), describe(rate)
	return r
}

// TestWindowIsThatOfAllTokenTimes compares the report of a window with the report derived from all token times. The
// report covers the requests that arrive in the window and the tokens gained in it.
func TestWindowIsThatOfAllTokenTimes(t *testing.T) {
	before, after, between := 0, 0, 0
	for seed := range uint64(80) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			e := &engine{rng: rand.New(rand.NewPCG(seed, 1)), c: collector.New(3), maxGap: 1 << (seed % 18)}
			long := float64(e.maxGap) / 2048 * 600 // roughly the duration of the steps below
			w := collector.Window{From: sim.Time(rng.Float64() * long / 2)}
			if rng.IntN(3) > 0 {
				w.To = w.From + sim.Time(1+rng.Float64()*long/2)
			}
			e.c.Within(w)
			for range 300 {
				if e.rng.IntN(3) == 0 {
					e.arrive()
				}
				e.step()
			}
			for _, id := range e.open {
				if times := e.tokens(id); len(times) > 0 {
					e.c.Progress(id, len(times), sim.Time(times[len(times)-1]))
				}
			}
			got := e.c.Report(0)
			n := e.c.CountWindow()
			if n.Before+n.Requests+n.After != len(e.want) {
				t.Errorf("%+v of %d requests", n, len(e.want))
			}
			before, after, between = before+n.Before, after+n.After, between+n.Requests
			for _, d := range reference.Compare(e.n.within(w), got) {
				t.Error(d)
			}
			if err := e.c.CheckWindow(); (err != nil) != (n.Requests == 0) {
				t.Errorf("%d requests: %v", n.Requests, err)
			}
		})
	}
	if before == 0 || after == 0 || between == 0 {
		t.Errorf("%d requests before windows, %d after, %d in them, want some", before, after, between)
	}
}

// TestWindowEnds checks that a window includes its first instant and excludes its last, for arrivals and for tokens.
func TestWindowEnds(t *testing.T) {
	c := collector.New(3)
	c.Within(collector.Window{From: 10, To: 30})
	for i, at := range []sim.Time{0, 10, 30} {
		c.Arrive(&sim.Request{ID: sim.RequestID(i), InputTokens: 100 << i, OutputTokens: 3}, at)
	}
	c.Pass(&scheduler.Pass{
		End: 10, Gap: 10, Count: 1, Tokens: 1, Admitted: []scheduler.Admission{{Request: 0}},
		Marks: []scheduler.Mark{{Request: 0, First: true, Tokens: 1}},
	})
	c.Pass(&scheduler.Pass{ // tokens at 20 and 30
		Start: 10, End: 30, Gap: 10, Count: 2, Tokens: 1, Decoding: 1, Second: []sim.RequestID{0},
	})
	want := collector.WindowCount{From: 10, To: 10, Before: 1, Requests: 1, After: 1, Input: 100, Output: 2}
	if got := c.CountWindow(); got.Output != want.Output || got.Input != want.Input || got.Before != 1 || got.Requests != 1 || got.After != 1 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
