package scaling

import (
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/report/failures"
)

// Line describes the requests that missed the goal, "" if nothing was compared.
func (s *Study) Line() string {
	if s.Goal == "" {
		return ""
	}
	return fmt.Sprintf("Missed the goal: %d of %d requests: %d while workers were starting, %d after workers were let go, %d at other times; goal of each: %s",
		s.Missed, s.Requests, s.MissedGrowing, s.MissedShrinking, s.MissedElse, s.OfEach)
}

// WriteText writes the cost of an action.
func (s *Study) WriteText(w io.Writer, a *Act) error {
	var b strings.Builder
	pool := ""
	if a.Pool != "" {
		pool = a.Pool + " "
	}
	fmt.Fprintf(&b, "Act %d of %d at %s: %sworkers from %d to %d\n", a.Number, len(s.Acts), failures.RoundTime(a.AtMS), pool, a.From, a.To)
	if a.Why != "" {
		b.WriteString(terminal.WrapText("Why: "+a.Why+"\n", 2))
	}
	span := failures.RoundTime(a.UntilMS - a.AtMS)
	switch {
	case a.Ready:
		fmt.Fprintf(&b, "The workers were ready after %s.\n", span)
	case a.To > a.From:
		fmt.Fprintf(&b, "The workers were not all ready in the %s before fewer were requested, or the end.\n", span)
	default:
		fmt.Fprintf(&b, "It stayed like that for %s.\n", span)
	}
	if s.Goal == "" {
		fmt.Fprintf(&b, "\nNothing was compared with this run.\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	each := ""
	if s.OfEach != "" { // older files lack it
		each = " (" + s.OfEach + ")"
	}
	b.WriteString("\n" + terminal.WrapText("Goal: "+s.Goal+".\n", 2))
	text := fmt.Sprintf("Requests that arrived from %[2]s to %[3]s and in no later act's time: %[1]d, of which %[4]d missed theirs%[6]s. Change from the same replay %[5]s:\n\n",
		a.Requests, failures.RoundTime(a.AtMS), failures.RoundTime(a.UntilMS), a.Missed, s.Versus, each)
	b.WriteString(terminal.WrapText(text, 2))
	fmt.Fprintf(&b, "  %-24s %12.2f ms\n  %-24s %12.2f ms\n", "TTFT, mean", a.ExtraTTFT, "E2E, mean", a.ExtraE2E)
	if a.Worst >= 0 {
		fmt.Fprintf(&b, "  %-24s %12.2f ms, request %d\n", "E2E, at worst", a.WorstExtra, a.Worst)
	}
	failures.WriteWindows(&b, s.Windows, s.WindowMS, [2]float64{a.AtMS, a.UntilMS}, s.Versus)
	_, err := io.WriteString(w, b.String())
	return err
}
