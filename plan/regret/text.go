package regret

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/sim"
)

// Worst returns the decisions of the sample that lost the most TTFT, the worst first.
func (s *Study) Worst(most int) []*Decision {
	var all []*Decision
	for i := range s.Decisions {
		if d := &s.Decisions[i]; d.Best(OwnTTFT) != d.Chosen {
			all = append(all, d)
		}
	}
	stable.Sort(all, func(a, b *Decision) int { return cmp.Compare(b.Regret(OwnTTFT), a.Regret(OwnTTFT)) })
	return all[:min(most, len(all))]
}

// Lines returns the study as text, with this number of the worst decisions.
func (s *Study) Lines(worst int) []string {
	if len(s.Decisions) == 0 {
		return []string{"Regret: no routing decision was made"}
	}
	affected := 0
	for i := range s.Decisions {
		affected += s.Decisions[i].Affected
	}
	tried := fmt.Sprintf("each of the %d workers tried", s.Workers)
	if s.Workers == 1 {
		tried = "with the only worker there is"
	}
	lines := []string{
		terminal.WrapLine(fmt.Sprintf("Regret: %d of %d routing decisions, %s; ms that the best in hindsight would have saved", len(s.Decisions), s.Routed, tried), 4),
		"                              was best      mean       p99       max",
	}
	names := [...]string{"TTFT of the request", "E2E of the request", "mean TTFT of all", "mean E2E of all"}
	for m := range measures {
		t := s.sumUp(m)
		lines = append(lines, fmt.Sprintf("    %-24s %8.1f%% %9.2f %9.2f %9.2f", names[m],
			100*float64(t.best)/float64(len(s.Decisions)), t.is.Mean, t.is.P99, t.is.Max))
	}
	lines = append(lines, terminal.WrapLine(fmt.Sprintf("    all: in flight at the decision, or arriving up to %v later; %.1f requests on average",
		formatTime(s.Horizon), float64(affected)/float64(len(s.Decisions))), 6))
	if text := s.lossText(); text != "" {
		lines = append(lines, terminal.WrapLine("    TTFT was lost to a worker with "+text, 6))
	}
	return append(lines, s.worstLines(worst)...)
}

// lossText returns the causes of lost TTFT, "" if there are none.
func (s *Study) lossText() string {
	var parts []string
	for i, l := range s.countLosses() {
		if l.decisions > 0 {
			parts = append(parts, fmt.Sprintf("%v: %d (mean %.2f ms)", Loss(i), l.decisions, l.mean))
		}
	}
	return strings.Join(parts, ", ")
}

// worstLines returns a table of the worst decisions: the chosen worker, and below it the best.
func (s *Study) worstLines(most int) []string {
	all := s.Worst(most)
	if len(all) == 0 {
		return nil
	}
	lines := []string{"    worst decisions              worker   cached  running  waiting   TTFT ms"}
	for _, d := range all {
		name := fmt.Sprintf("request %d", d.Request)
		if d.Line > 0 {
			name += fmt.Sprintf(" (line %d)", d.Line)
		}
		lines = append(lines,
			d.line(name, "", d.Chosen),
			d.line("  at "+formatTime(d.At), "best ", d.Best(OwnTTFT)))
	}
	return lines
}

// line returns the state of a worker at the decision, and its TTFT.
func (d *Decision) line(name, what string, w sim.WorkerID) string {
	o := &d.Outcomes[w]
	return fmt.Sprintf("    %-24s %10s %8d %8d %8d %9.2f", name, what+fmt.Sprint(w), o.Cached, o.Running, o.Waiting, float64(o.TTFT))
}

// formatTime returns a time in few digits.
func formatTime(at sim.Time) string {
	return time.Duration(float64(at) * float64(time.Millisecond)).Round(time.Millisecond).String()
}
