package calibrate

import (
	"context"
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// freshShare is the least share of requests with long waits in the warm-up of fresh servers. fewLater bounds the
// share of such requests later, relative to the share in the warm-up.
const (
	freshShare = 0.05
	fewLater   = 0.2
)

// Fresh reports whether the servers of the run had not served requests before. Many of the run's first requests then
// waited for a long time, and few of the later ones.
func (m *Measured) Fresh() bool {
	switch {
	case m.whole != nil:
		return m.whole.Fresh()
	case !m.Client || m.InFlight > 0 || !m.Settings.IsVLLM():
		return false
	}
	late := m.lateFirst()
	var n, waited [2]float64 // in the warm-up, then later
	for i := m.Lead; i < len(m.Requests); i++ {
		r, k := &m.Requests[i], 0
		if r.Arrival >= measured.ClientWarmUp {
			k = 1
		}
		n[k]++
		if r.First-r.Arrival >= late {
			waited[k]++
		}
	}
	share := waited[0] / n[0]
	return share >= freshShare && (n[1] == 0 || waited[1]/n[1] < fewLater*share)
}

// cutAt returns the part of the run with the requests that arrive before a time in s.
func (m *Measured) cutAt(end float64) *Measured {
	c := *m
	c.whole = m
	n, _ := slices.BinarySearchFunc(m.Requests, end, func(r measured.Request, t float64) int {
		if r.Arrival < t {
			return -1
		}
		return 1
	})
	c.Requests = slices.Clone(m.Requests[:n])
	if m.Prompts == nil {
		return &c
	}
	c.Prompts = &measured.Prompts{BlockTokens: m.Prompts.BlockTokens, Path: m.Prompts.Path}
	for i := range c.Requests {
		at := &c.Requests[i].Place
		c.Prompts.IDs, c.Prompts.Lengths = append(c.Prompts.IDs, m.Prompts.IDs[*at]), append(c.Prompts.Lengths, m.Prompts.Lengths[*at])
		*at = i
	}
	return &c
}

// freshRun is the warm-up of a run with fresh servers.
type freshRun struct {
	run      *Measured
	measured []float64 // times to the first token in s, sorted
}

// warmupFit searches for the time when fresh servers stall and for the duration of the stall.
type warmupFit struct {
	replay  func(*Measured, *timing.Profile, uint64) (*harness.Result, error)
	runs    []freshRun
	held    []float64 // times to the first token, in s, of requests with long waits
	profile timing.Profile
	best    timing.Warmup
	least   float64 // distance with best
}

// addRun adds the warm-up of a run.
func (f *warmupFit) addRun(m *Measured) {
	cut, late := freshRun{run: m.cutAt(measured.ClientWarmUp)}, m.lateFirst()
	for _, r := range cut.run.Requests[m.Lead:] {
		if r.Cut {
			continue
		}
		ttft := r.First - r.Arrival
		if cut.measured = append(cut.measured, ttft); ttft >= late {
			f.held = append(f.held, ttft)
		}
	}
	slices.Sort(cut.measured)
	f.runs = append(f.runs, cut)
}

// warmupSeeds is the number of replays for each warm-up. Several replays are necessary because it is random which
// requests wait while servers stall.
const warmupSeeds = 3

// distanceOf returns the distance between the times to the first token in the warm-ups and in their replays. The
// distance is the sum over all replays of the mean difference of the sorted times, as a share of the measured mean.
func (f *warmupFit) distanceOf(w *timing.Warmup) (float64, error) {
	total := 0.0
	f.profile.Warmup = w
	for _, cut := range f.runs {
		for seed := range uint64(warmupSeeds) {
			result, err := f.replay(cut.run, &f.profile, seed)
			if err != nil {
				return 0, err
			}
			out, err := cut.run.outcomeOf(result)
			if err != nil {
				return 0, err
			}
			var got []float64
			for i := cut.run.Lead; i < len(cut.run.Requests); i++ {
				if r := &cut.run.Requests[i]; !r.Cut {
					got = append(got, out.First[i]-r.Arrival)
				}
			}
			slices.Sort(got)
			off := 0.0
			for i, x := range got {
				off += math.Abs(x - cut.measured[i])
			}
			total += off / float64(len(got)) / measured.MeanOf(cut.measured)
		}
	}
	return total, nil
}

// try tries a warm-up and keeps it if its distance is the least so far.
func (f *warmupFit) try(ctx context.Context, requests int, time float64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := timing.Warmup{Requests: requests, Time: time}
	off, err := f.distanceOf(&w)
	if err == nil && off < f.least {
		f.best, f.least = w, off
	}
	return err
}

// explains bounds the distance with a warm-up, relative to the distance without one. mostWarm is the largest number
// of requests before the stall.
const (
	explains = 0.6
	mostWarm = 32
)

// fitWarmup returns when fresh servers stall and for how long. fitWarmup returns nil if no run has fresh servers or
// if a stall does not explain the waits of requests. Runs with unknown first requests count only if there are no
// other fresh runs.
func fitWarmup(ctx context.Context, runs []*Measured, o Options, p timing.Profile) (*timing.Warmup, error) {
	f := &warmupFit{replay: o.Replay, profile: p}
	known := slices.ContainsFunc(runs, func(m *Measured) bool { return m.Lead == 0 && m.Fresh() })
	for _, m := range runs {
		if m.Fresh() && (m.Lead == 0 || !known) {
			f.addRun(m)
		}
	}
	if len(f.runs) == 0 || o.Reference {
		return nil, nil
	}
	none, err := f.distanceOf(nil)
	if err != nil {
		return nil, err
	}
	f.least = none
	longest := measured.QuantileOf(f.held, 0.95)
	for requests := 1; requests <= mostWarm; requests *= 2 {
		for _, share := range []float64{0.7, 0.8, 0.9, 1, 1.1} {
			if err := f.try(ctx, requests, share*longest); err != nil {
				return nil, err
			}
		}
	}
	for _, step := range []float64{0.05, 0.025} {
		centre := f.best
		for _, sign := range []float64{-1, 1} {
			if err := f.try(ctx, centre.Requests, centre.Time*(1+sign*step)); err != nil {
				return nil, err
			}
		}
	}
	if !(f.least < explains*none) {
		return nil, nil
	}
	return &f.best, nil
}

// unseen is the estimated time in s from the arrival of the last request with a long wait to the end of the stall.
// Requests that arrive later in the stall wait less than longHold, and sometimes no request arrives.
const unseen = longHold + 0.4

// WarmupOf returns the stalls of the run's servers if they are fresh. When no more requests have long waits, all
// servers have had their stall. WarmupOf takes the instant of the last long wait from the run, because the order and
// the times of the stalls are random.
func (m *Measured) WarmupOf(w *timing.Warmup) (all vllm.Warmup) {
	if w == nil || !m.Fresh() {
		return all
	}
	if m.whole != nil {
		return m.whole.WarmupOf(w)
	}
	all = vllm.Warmup{Requests: w.Requests, Time: sim.Time(1000 * w.Time)}
	late := m.lateFirst()
	for i := m.Lead; i < len(m.Requests) && m.Requests[i].Arrival < measured.ClientWarmUp; i++ {
		if r := &m.Requests[i]; r.First-r.Arrival >= late {
			all.Until = max(sim.Time(1000*(r.Arrival+unseen-w.Time)), 1)
		}
	}
	return all
}
