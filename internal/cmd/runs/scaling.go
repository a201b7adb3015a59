package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/failures"
	"github.com/replay-llm/replay/report/scaling"
)

// goal returns the objectives of requests for comparisons with another replay.
func (r *run) goal() failures.Goal {
	out := &r.o.Outputs
	goal := failures.Goal{Objectives: out.Slo.All, Share: out.Attainment}
	if r.workload != nil && r.workload.Classes != nil {
		places := PlacesIn(r.workload)
		goal.ClassOf = func(session, turn int32) string { return places(session, turn).Class }
	}
	return goal
}

// studyScaling computes the cost of each action of an autoscaler. studyScaling compares the replay with a replay that
// has the largest requested number of workers from the start.
func (r *run) studyScaling(ctx context.Context) error {
	all := r.result.Scaling
	if len(all) == 0 || r.spec.Stream != nil {
		return nil
	}
	r.scaling = scaling.Judge(r.result, nil, r.goal())
	if len(r.scaling.Acts) == 0 {
		return nil
	}
	calm, most := r.spec, scaling.MostWanted(all)
	var counts []int
	for i := range calm.Pools {
		n := calm.Pools[i].Count
		if k, ok := most[calm.Pools[i].Role]; ok {
			n = max(k, calm.Choice().Info().MinWorkers)
		}
		counts = append(counts, n)
	}
	calm.Autoscale, calm.AutoscaleDecode, calm.Scale, calm.Faults = nil, nil, nil, nil
	calm.Topology = calm.Topology.Resize(counts...)
	result, err := calm.RunOn(ctx, r.workload, replay.Streams{})
	if err != nil {
		return err
	}
	r.scaling = scaling.Judge(r.result, result, r.goal())
	return nil
}

// noComparison is the reason for which a streamed run has no costs of autoscaler actions.
const noComparison = "--stream keeps no requests to compare with those of another replay"

// mostActs is the maximum number of autoscaler actions that are printed below a report.
const mostActs = 8

// addScaling adds lines about autoscalers to the lines below the report.
func (r *run) addScaling() {
	for _, s := range r.result.Scaling {
		u := s.Usage()
		text := fmt.Sprintf("%s: %d to %d, %.2f on average; %.2f worker-hours", s.Name(), u.Least, u.Most, u.Mean, u.WorkerHours)
		if u.GPUHours > u.WorkerHours {
			text += fmt.Sprintf(", %.2f GPU-hours", u.GPUHours)
		}
		if u.Cost > 0 {
			text += fmt.Sprintf(", which cost %.2f", u.Cost)
		}
		r.lines = append(r.lines, terminal.WrapLine(text, 4))
		var acts []string
		for i, a := range s.Acts {
			if i == mostActs && len(s.Acts) > mostActs+1 {
				acts = append(acts, fmt.Sprintf("and %d more", len(s.Acts)-i))
				break
			}
			text := fmt.Sprintf("%d to %d at %gs", a.From, a.To, float64(a.At)/1000)
			if a.Given {
				text += " by --scale"
			}
			acts = append(acts, text)
		}
		if len(acts) > 0 {
			r.lines = append(r.lines, terminal.WrapLine("Scaling: "+strings.Join(acts, ", "), 4))
		}
		if d := s.Drains; d != nil {
			text := fmt.Sprintf("Drains: %d workers killed after %gs: %d requests lost, %d begun again, %d moved on", d.Kills, float64(d.Timeout)/1000, d.Lost, d.Retried, d.Migrated)
			r.lines = append(r.lines, terminal.WrapLine(text, 4))
		}
	}
	if len(r.result.Scaling) > 0 && r.spec.Stream != nil {
		r.lines = append(r.lines, terminal.WrapLine("Missed the goal: unknown, "+noComparison, 4))
	}
	if r.scaling != nil && r.scaling.Goal != "" {
		r.lines = append(r.lines, terminal.WrapLine(r.scaling.Line(), 4))
	}
}
