package failures

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/terminal"
)

// Lines describes the costs of the first events, one line each, and the number of further events.
func (s *Study) Lines(most int) []string {
	var lines []string
	for i := range s.Events {
		if i == most {
			return append(lines, fmt.Sprintf("Faults: and %d more", len(s.Events)-i))
		}
		e := &s.Events[i]
		lines = append(lines, fmt.Sprintf("Fault %d at %s: %s: %s; %s", e.Number, RoundTime(e.AtMS), e.What, e.toll(), e.recovery()))
	}
	return lines
}

// toll describes the outcomes of the requests that an event interrupted.
func (e *Event) toll() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(e.Lost, "lost")
	add(e.Retried, "begun again")
	add(e.Migrated, "moved on")
	if number, rest, ok := strings.Cut(strings.Join(parts, ", "), " "); ok {
		unit := "requests"
		if number == "1" {
			unit = "request"
		}
		parts = []string{number + " " + unit + " " + rest}
	}
	if e.LostTokens == 1 {
		add(1, "token lost")
	} else {
		add(e.LostTokens, "tokens lost")
	}
	add(e.RecomputedTokens, "tokens computed again")
	if len(parts) == 0 {
		return "no request lost its place"
	}
	return strings.Join(parts, ", ")
}

// recovery describes the time for which the goal was missed.
func (e *Event) recovery() string {
	switch {
	case !e.Missed && e.Later == 0:
		return "no request arrived after it"
	case !e.Missed:
		return "later arrivals met the objective"
	case !e.MetAgain:
		return fmt.Sprintf("the goal was not met again in the %s that followed", RoundTime(e.AfterMS))
	}
	return fmt.Sprintf("the goal was met again after %s", RoundTime(e.AfterMS))
}

// RoundTime formats a time in ms with few digits.
func RoundTime(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// Find returns an event by its number.
func (s *Study) Find(number int) (*Event, error) {
	if len(s.Events) == 0 {
		return nil, fmt.Errorf("no fault %d: none had happened when the replay ended", number)
	}
	if number < 1 || number > len(s.Events) {
		return nil, fmt.Errorf("no fault %d, must be 1 to %d", number, len(s.Events))
	}
	return &s.Events[number-1], nil
}

// shown is the maximum number of windows that are shown before and after an event.
const shown = 12

// WriteText writes the cost of an event.
func (s *Study) WriteText(w io.Writer, e *Event) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Fault %d of %d at %s: %s\n\n", e.Number, len(s.Events), RoundTime(e.AtMS), e.What)
	for _, row := range []struct {
		what  string
		value int
	}{
		{"requests lost", e.Lost}, {"requests begun again", e.Retried}, {"requests moved on", e.Migrated},
		{"tokens lost", e.LostTokens}, {"tokens computed again", e.RecomputedTokens},
	} {
		fmt.Fprintf(&b, "  %-24s %12d\n", row.what, row.value)
	}
	text := e.recovery()
	b.WriteString("\n" + terminal.WrapText(fmt.Sprintf("Goal: %s.\n%s%s.\n\n", s.Goal, strings.ToUpper(text[:1]), text[1:]), 2))
	b.WriteString(terminal.WrapText(fmt.Sprintf("%d requests were open or arrived from %s to %s. Change from the same replay without faults:\n\n", e.Requests, RoundTime(e.AtMS), RoundTime(e.UntilMS)), 2))
	fmt.Fprintf(&b, "  %-24s %12.2f ms\n  %-24s %12.2f ms\n", "TTFT, mean", e.ExtraTTFT, "E2E, mean", e.ExtraE2E)
	if e.Worst >= 0 {
		fmt.Fprintf(&b, "  %-24s %12.2f ms, request %d\n", "E2E, at worst", e.WorstExtra, e.Worst)
	}
	WriteWindows(&b, s.Windows, s.WindowMS, [2]float64{e.AtMS, e.UntilMS}, "without faults")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteWindows writes the results of the windows between two times, and one window before and after them.
func WriteWindows(b *strings.Builder, windows []Window, windowMS float64, span [2]float64, versus string) {
	at := min(int(span[0]/windowMS), len(windows)-1)
	to := min(int(span[1]/windowMS)+2, len(windows), at+2*shown)
	b.WriteString("\n" + terminal.WrapText(fmt.Sprintf("Requests that arrived in each %s; means in ms, %s behind the slash:\n\n", RoundTime(windowMS), versus), 2))
	fmt.Fprintf(b, "  %9s %9s %6s %22s %20s\n", "from", "requests", "lost", "TTFT", "TPOT")
	for k := max(at-1, 0); k < to; k++ {
		w := &windows[k]
		if w.Requests == 0 {
			continue
		}
		mark := ""
		if !w.Met {
			mark = "  missed"
		}
		fmt.Fprintf(b, "  %9s %9d %6d %10.2f / %9.2f %9.2f / %8.2f%s\n", RoundTime(w.FromMS), w.Requests, w.Lost, w.TTFT, w.CalmTTFT, w.TPOT, w.CalmTPOT, mark)
	}
}
