package calibrate

import (
	"context"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/scheduler/timing"
)

// routeRuns lets the router of each run that has one choose the workers of requests, in replays with roughly the pass
// times of its servers. It also finds how fresh servers stand still. The choices depend on how fast passes are: a fit
// to the choices by data sheets has other queues than its own replays.
func routeRuns(ctx context.Context, sims []*Simulation, runs []*Measured, o Options, whole *training) (*timing.Warmup, error) {
	if o.Replay == nil {
		return nil, nil
	}
	engine := runs[0].Settings.Engine // it is replayed by the rules of this engine's release
	p := timing.Profile{Version: timing.ProfileVersion, Parameters: measured.StartParameters(&sims[0].settings), Engine: &engine}
	if err := findEvents(runs, o, &p); err != nil {
		return nil, err
	}
	routed := false
	for again := range 2 {
		var err error
		if again > 0 {
			p.Parameters, err = fitRoughly(ctx, sims, runs, whole)
		} else {
			p.Warmup, err = fitWarmup(ctx, runs, o, p)
		}
		if err != nil {
			return nil, err
		}
		for i, m := range runs {
			sims[i].warmup = m.WarmupOf(p.Warmup)
			if !m.isRouted() || m.Taken != nil {
				continue
			}
			routed = true
			result, err := o.Replay(m, &p, 0)
			if err != nil {
				return nil, err
			}
			sims[i].taken = sims[i].taken[:0]
			for _, r := range result.Collector.Records() {
				sims[i].taken = append(sims[i].taken, int(r.Worker))
			}
		}
		if !routed && p.Warmup == nil {
			break
		}
	}
	return p.Warmup, nil
}

// isRouted reports whether a router that is known chose the server of each request.
func (m *Measured) isRouted() bool {
	return m.Settings.Pods > 1 && m.Settings.DataParallel <= 1 && m.Settings.Router != ""
}

// fitRoughly returns the parameters of a plain form that the effects of parameters lead to.
func fitRoughly(ctx context.Context, sims []*Simulation, runs []*Measured, whole *training) (timing.Parameters, error) {
	seen, targets := targetsOf(sims, runs, whole.on)
	s := newSearch(ctx, seen, targets)
	forms := s.plainForms()
	s.form = forms[len(forms)-1]
	at := s.newtonFromThree(s.scaleStart())
	return s.form.parametersAt(&s.start, at.u), s.err
}
