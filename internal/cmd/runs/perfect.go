package runs

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/slo"
)

// findPerfect finds the maximum number of concurrent requests per worker of a perfect autoscaler with which the run
// meets its objectives. findPerfect does nothing if the settings contain the number of concurrent requests.
func (r *run) findPerfect(ctx context.Context) error {
	if len(r.o.Outputs.Slo.All) == 0 || r.live || !isSought(r.spec.Autoscale) && !isSought(r.spec.AutoscaleDecode) {
		return nil
	}
	w, err := r.spec.Open(ctx, replay.Streams{Stdin: r.stdin})
	if err != nil {
		return err
	}
	r.workload = w
	spec := r.spec
	r.drive = func(ctx context.Context, streams replay.Streams) (*harness.Result, error) {
		return r.spec.RunOn(ctx, w, streams)
	}
	var failed error
	meets := func(n int) bool {
		r.spec = withPerfect(spec, n)
		ok, err := r.meetsObjectives(ctx)
		failed = err
		return ok && err == nil
	}
	good, bad := 0, 1 // bad may meet the objectives
	for bad <= 1<<20 && meets(bad) {
		good, bad = bad, 2*bad
	}
	for bad-good > 1 && failed == nil {
		if middle := (good + bad) / 2; meets(middle) {
			good = middle
		} else {
			bad = middle
		}
	}
	if failed != nil {
		return failed
	}
	r.spec = withPerfect(spec, max(good, 1))
	text := fmt.Sprintf("Perfect autoscaler: %d requests at once on each worker are the most with which the objectives are met", good)
	if good == 0 {
		text = "Perfect autoscaler: the objectives are missed even with one request at a time on each worker, or max workers"
	}
	r.lines = append(r.lines, terminal.WrapLine(text, 4))
	return nil
}

// isSought reports whether the number of concurrent requests per worker of an autoscaler must be found.
func isSought(a *replay.Autoscale) bool {
	return a != nil && a.Kind == autoscale.Foreknown && a.Load.InFlight == 0
}

// withPerfect returns spec with n concurrent requests per worker for the autoscalers without this number.
func withPerfect(spec replay.Spec, n int) replay.Spec {
	for _, a := range []**replay.Autoscale{&spec.Autoscale, &spec.AutoscaleDecode} {
		if isSought(*a) {
			own, load := **a, *(*a).Load
			load.InFlight = float64(n)
			own.Load = &load
			*a = &own
		}
	}
	return spec
}

// meetsObjectives replays the workload and reports whether it meets the objectives.
func (r *run) meetsObjectives(ctx context.Context) (bool, error) {
	result, err := r.spec.RunOn(ctx, r.workload, replay.Streams{})
	if err != nil {
		return false, err
	}
	out := &r.o.Outputs
	rows := requests.Collect(result.Collector, PlacesIn(r.workload), nil, nil)
	return slo.Judge(out.Slo.All, out.Attainment, rows, result).Holds(), nil
}
