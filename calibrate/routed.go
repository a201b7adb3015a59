package calibrate

import (
	"context"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/scheduler/timing"
)

// routeRuns replays each run that has a router, so that the router chooses the workers of requests. The replays have
// approximately the pass times of the run's servers, because the choices depend on these times. With choices from
// data sheets, a fit would have other queues than its own replays. routeRuns also finds the stalls of fresh servers.
func routeRuns(ctx context.Context, sims []*Simulation, runs []*Measured, o Options, whole *training) (*timing.Warmup, error) {
	if o.Replay == nil {
		return nil, nil
	}
	engine := runs[0].Settings.Engine // replays follow the rules of this engine's release
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

// isRouted reports whether a known router chose the server of each request.
func (m *Measured) isRouted() bool {
	return m.Settings.Pods > 1 && m.Settings.DataParallel <= 1 && m.Settings.Router != ""
}

// fitRoughly returns the parameters of a plain form after a descent by the effects of parameters.
func fitRoughly(ctx context.Context, sims []*Simulation, runs []*Measured, whole *training) (timing.Parameters, error) {
	seen, targets := targetsOf(sims, runs, whole.on)
	s := newSearch(ctx, seen, targets)
	forms := s.plainForms()
	s.form = forms[len(forms)-1]
	at := s.newtonFromThree(s.scaleStart())
	return s.form.parametersAt(&s.start, at.u), s.err
}
