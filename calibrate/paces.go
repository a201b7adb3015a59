package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/scheduler/timing"
)

// The constants are for the search for slow runs among several runs. The passes of a slow run take longer than in the
// other runs, at least by the share leastPace. Only the paceTries runs with the longest waits for tokens are tried.
const (
	leastPace  = 0.03
	clearPace  = 0.05 // enough without a clear reduction of the loss, if the runs then differ by less than half as much
	surePace   = 0.08 // more than the error of a fit at another load
	paceTries  = 3
	paceRounds = 4 // replays that find the pace of a run
)

// atPaces returns the simulations of runs at the speeds that the training found for their servers.
func (t *training) atPaces(sims []*Simulation) []*Simulation {
	all := slices.Clone(sims)
	for i, pace := range t.paces {
		if pace > 0 {
			c := *sims[i]
			c.pace = pace
			all[i] = &c
		}
	}
	return all
}

// slownessOf returns the share by which passes of run i took longer than passes of the other runs, 0 if they did not.
func (t *training) slownessOf(i int) float64 {
	if t.paces == nil || t.paces[i] == 0 {
		return 0
	}
	return 1/t.paces[i] - 1
}

// nameSlow returns the name of a check on run i. If the fit to all runs found a slow server, the name includes its
// slowness and how this fit treated it.
func (t *training) nameSlow(name string, i int, all *training) string {
	slow := all.slownessOf(i)
	switch {
	case slow == 0:
		return name
	case t.slownessOf(i) > 0:
		return fmt.Sprintf("%s (a server %.1f %% slower, simulated so)", name, 100*slow)
	}
	return fmt.Sprintf("%s (a server %.1f %% slower, replayed as an ordinary one)", name, 100*slow)
}

// knownOf returns a known anomaly of run i that this fit does not include, "" if there is none.
func (t *training) knownOf(i int, all *training) string {
	if all.slownessOf(i) > 0 && t.slownessOf(i) == 0 {
		return "its server was slow"
	}
	return ""
}

// notePaces adds the slow runs to the notes and to the profile.
func (r *Result) notePaces(runs []*Measured, t *training) {
	for i, m := range runs {
		r.Profile.Slow = append(r.Profile.Slow, m.Slow...)
		if slow := t.slownessOf(i); slow > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: its passes took %.1f %% longer than those of the other runs: it is simulated so, and the profile is that of the other runs", m.Name, 100*slow))
			r.Profile.Slow = append(r.Profile.Slow, timing.SlowServer{Run: m.Name, Share: slow})
		}
	}
}

// paceFit searches for runs of slow servers among the runs of a training.
type paceFit struct {
	ctx  context.Context
	sims []*Simulation
	runs []*Measured
	t    *training
	f    *fitted
	seen []int
}

// fitPaces finds the runs of a training with slower servers than the other runs. fitPaces repeats the fit with each
// slow run at its own pace if this reduces the loss clearly.
func fitPaces(ctx context.Context, sims []*Simulation, runs []*Measured, t *training, f fitted) (fitted, error) {
	s := &paceFit{ctx: ctx, sims: sims, runs: runs, t: t, f: &f}
	for i, p := range t.on {
		if len(p.chosen) > 0 {
			s.seen = append(s.seen, i)
		}
		if runs[i].InFlight > 0 || sims[i].rules.Reference() {
			return f, nil
		}
	}
	for found := 1; len(s.seen) >= measured.FewPeers && found <= (len(s.seen)-1)/2; found++ {
		i, pace, err := s.findSlow()
		if err != nil || i < 0 {
			return f, err
		}
		if t.paces == nil {
			t.paces = make([]float64, len(runs))
		}
		t.paces[i] = pace
		before := f.runs
		seen, targets := targetsOf(t.atPaces(sims), runs, t.on)
		if f, err = fitTargets(ctx, seen, targets); err != nil {
			return f, err
		}
		f.runs += before
	}
	return f, nil
}

// searchAt returns a search with the fit's form and with these paces. searchAt uses all runs of the training except
// one.
func (s *paceFit) searchAt(paces []float64, without int) *search {
	on := slices.Clone(s.t.on)
	if without >= 0 {
		on[without] = part{}
	}
	paced := training{paces: paces}
	seen, targets := targetsOf(paced.atPaces(s.sims), s.runs, on)
	n := newSearch(s.ctx, seen, targets)
	n.form = s.f.form
	return n
}

// findSlow returns the run that most likely has a slow server, and its pace. The run is -1 if no run clearly has a
// slow server.
func (s *paceFit) findSlow() (best int, pace float64, err error) {
	plain := s.searchAt(s.t.paces, -1)
	usual := plain.descendNewton(point{u: s.f.u}).loss
	least := usual * (1 - worth)
	if best = -1; plain.err != nil {
		return best, 0, plain.err
	}
	var off []float64 // by run: logarithm of measured to simulated times per token
	if plain.loss(s.f.u); plain.err != nil {
		return best, 0, plain.err
	}
	for _, t := range plain.trials {
		off = append(off, t.behind())
	}
	order := slices.Clone(s.seen)
	stable.Sort(order, func(a, b int) int {
		return cmp.Compare(off[slices.Index(s.seen, b)], off[slices.Index(s.seen, a)])
	})
	for _, i := range order[:min(paceTries, len(order))] {
		if s.t.slownessOf(i) > 0 {
			continue
		}
		at, loss, odds, err := s.tryPace(i)
		if err != nil {
			return -1, 0, err
		}
		clear := loss < usual && (1/at-1 >= surePace || 1/at-1 >= clearPace && odds < sizeOf(off)/2)
		if 1/at-1 >= leastPace && loss < least || clear && best < 0 {
			best, pace, least = i, at, min(loss, least)
		}
	}
	return best, pace, nil
}

// sizeOf returns the sum of the absolute values.
func sizeOf(values []float64) (sum float64) {
	for _, x := range values {
		sum += math.Abs(x)
	}
	return sum
}

// tryPace returns the speed of the server of a run relative to the fit of the other runs. tryPace also returns the
// loss of all runs at this speed, and the remaining differences in times per token.
func (s *paceFit) tryPace(i int) (pace, loss, odds float64, err error) {
	others := s.searchAt(s.t.paces, i)
	to := others.descendNewton(point{u: s.f.u})
	if others.err != nil {
		return 0, 0, 0, others.err
	}
	paces := slices.Clone(s.t.paces)
	if paces == nil {
		paces = make([]float64, len(s.runs))
	}
	paces[i] = 1
	at := slices.Index(s.seen, i)
	for range paceRounds {
		one := s.searchAt(paces, -1)
		if one.err = one.simulate(to.u); one.err != nil {
			return 0, 0, 0, one.err
		}
		paces[i] *= math.Exp(-one.trials[at].behind())
	}
	paces[i] = math.Round(1e4*paces[i]) / 1e4
	all := s.searchAt(paces, -1)
	fit := all.descendNewton(to)
	all.loss(fit.u)
	for _, t := range all.trials {
		odds += math.Abs(t.behind())
	}
	return paces[i], fit.loss + float64(clientWeight*squareOf(math.Log(paces[i]))), odds, all.err
}

// behind returns the median over requests of the logarithm of the measured to the simulated time per token. The
// simulated times come from the last replay of the trial.
func (t *trial) behind() float64 {
	var off []float64
	for j, simulated := range t.target.simulated(1, &t.out) {
		off = append(off, math.Log(t.target.measured[1][j]/simulated))
	}
	return measured.QuantileOf(off, 0.5)
}
