package inspect

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/terminal"
)

const (
	rows     = 20 // maximum number of rows of the timeline
	barWidth = 40
)

// WriteText writes the summary as text. Estimates have the prefix ~.
func (s *Summary) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		b.WriteString(wrapLabelled(label, fmt.Sprintf(format, args...)))
	}
	line("Trace", "%s", s.Name)
	also := ""
	if len(s.Also) > 0 {
		also = " (also reads as " + strings.Join(s.Also, ", ") + ")"
	}
	line("Format", "%s%s", s.Format, also)
	line("Requests", "%d", s.Requests)
	line("Conversations", "%s; requests per conversation: %s at the median, %d at most", s.Sessions, s.medianTurns(), max(s.Turns.Max, 1))
	if s.Waiting > 0 {
		line("Waiting", "%d requests wait for the one before them; delay %s s on average", s.Waiting, formatDecimal(s.Delays.Mean()/1000))
	}
	if g := &s.Graph; g.Waiting > 0 {
		line("Graph", "%d requests wait for other requests, %d of them for several; at most %d", g.Waiting, g.Joins, g.Widest)
		line("", "wait for one, and the longest chain has %d", g.Deepest)
	}
	for i, k := range s.Dropped.Kinds() {
		line([]string{"Dropped", ""}[min(i, 1)], "%d %s", k.Rows, k.Text)
	}
	if s.Measured {
		line("Beware", "start times are those of a client that waited for this server")
	}
	fmt.Fprintf(&b, "\n%-9s %8s %7s %7s %7s %7s %7s %7s %13s\n", "Tokens", "mean", "min", "p50", "p90", "p95", "p99", "max", "total")
	s.writeLengths(&b, "  input", &s.Input)
	s.writeLengths(&b, "  output", &s.Output)
	b.WriteByte('\n')
	s.writeArrivals(&b)
	s.writePrefixes(line)
	b.WriteByte('\n')
	for i, command := range s.Suits() {
		fmt.Fprintf(&b, "%-16s%s\n", []string{"Suits", ""}[min(i, 1)], command)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrapLabelled returns a line of the summary with its label, wrapped.
func wrapLabelled(label, text string) string {
	return terminal.WrapLine(fmt.Sprintf("%-16s%s", label, text), 16) + "\n"
}

// medianTurns returns the median number of requests per conversation.
func (s *Summary) medianTurns() string {
	if s.Turns.N == 0 || s.single > s.Turns.N {
		return "1"
	}
	return strconv.Itoa(s.Turns.Quantile(0.5))
}

func (s *Summary) writeLengths(b *strings.Builder, label string, l *Lengths) {
	mark := markEstimate(l.Approximate || s.Estimated)
	fmt.Fprintf(b, "%-9s %8s", label, mark+formatDecimal(l.Mean()))
	for _, n := range []int{l.Min, l.Quantile(0.5), l.Quantile(0.9), l.Quantile(0.95), l.Quantile(0.99), l.Max} {
		fmt.Fprintf(b, " %7s", mark+strconv.Itoa(n))
	}
	fmt.Fprintf(b, " %13s\n", mark+strconv.FormatFloat(l.Sum, 'f', -1, 64))
}

func (s *Summary) writeArrivals(b *strings.Builder) {
	t := &s.Arrivals
	if t.N == 0 {
		fmt.Fprintf(b, "%-16snone in trace\n", "Arrivals")
		return
	}
	peak := t.Peak()
	b.WriteString(wrapLabelled("Arrivals", fmt.Sprintf("%s s, %s requests/s; gaps vary by %s (%s); most in %s s: %d, at %s s",
		formatDecimal(t.Duration()/1000), formatDecimal(t.Rate()), formatDecimal(t.Burstiness()), processName(t.Burstiness()), formatDecimal(peak.Width/1000), peak.Arrivals, formatDecimal(peak.Start/1000))))
	if s.Unsorted > 0 {
		fmt.Fprintf(b, "%-16s%d requests arrive before the one above them\n", "", s.Unsorted)
	}
	all := t.Spans(rows)
	most := 0.0
	for _, span := range all {
		most = max(most, span.Rate())
	}
	for _, span := range all {
		bar := 0
		if most > 0 {
			bar = int(math.Round(span.Rate() / most * barWidth))
		}
		line := fmt.Sprintf("%14s s%10s/s  %s", formatDecimal(span.Start/1000), formatDecimal(span.Rate()), strings.Repeat("#", bar))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// processName returns a description of the arrivals by their coefficient of variation.
func processName(variation float64) string {
	switch {
	case variation < 0.7:
		return "steady; Poisson: 1"
	case variation > 1.5:
		return "bursts; Poisson: 1"
	}
	return "as Poisson: 1"
}

func (s *Summary) writePrefixes(line func(string, string, ...any)) {
	if s.Private {
		line("\nPrefixes", " none in trace: nothing is known to be shared (%d blocks of %d tokens)", s.Blocks, s.Block)
		return
	}
	line("\nPrefixes", " %d blocks of %d tokens, %s of them distinct", s.Blocks, s.Block, s.Distinct)
	line("Infinite cache", "%s%s %% of prompt tokens reused, in %s requests", markEstimate(s.Reused.Approximate), formatDecimal(s.Reuse()*100), s.WithReuse)
}

func (f Figure) String() string {
	return markEstimate(f.Approximate) + strconv.FormatFloat(math.Round(f.Value), 'f', -1, 64)
}

func markEstimate(approximate bool) string {
	if approximate {
		return "~"
	}
	return ""
}

// formatDecimal formats x with three digits. Integers and numbers of 1000 or more have no decimals.
func formatDecimal(x float64) string {
	if a := math.Abs(x); a >= 1000 || a == math.Trunc(a) {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// WriteJSON writes the summary as a JSON object. Keys that end in _approximate mark estimates.
func (s *Summary) WriteJSON(w io.Writer) error {
	timeline := []map[string]any{}
	for _, span := range s.Arrivals.Spans(rows) {
		timeline = append(timeline, map[string]any{"start_s": span.Start / 1000, "width_s": span.Width / 1000, "arrivals": span.Arrivals, "rate_rps": span.Rate()})
	}
	peak := s.Arrivals.Peak()
	values := map[string]any{
		"trace": s.Name, "format": s.Format, "also": s.Also, "requests": s.Requests,
		"bad_rows": s.Dropped.Bad, "left_out_requests": s.Dropped.ZeroOutput + s.Dropped.Other, "zero_output_requests": s.Dropped.ZeroOutput,
		"conversations": math.Round(s.Sessions.Value), "conversations_approximate": s.Sessions.Approximate,
		"waiting_requests": s.Waiting, "mean_delay_ms": s.Delays.Mean(),
		"input_tokens": s.Input.values(s.Estimated), "output_tokens": s.Output.values(s.Estimated),
		"arrivals": s.Arrivals.N, "duration_s": s.Arrivals.Duration() / 1000, "rate_rps": s.Arrivals.Rate(),
		"burstiness": s.Arrivals.Burstiness(), "unsorted_requests": s.Unsorted,
		"peak_arrivals": peak.Arrivals, "peak_start_s": peak.Start / 1000, "peak_width_s": peak.Width / 1000,
		"timeline":   timeline,
		"block_size": s.Block, "blocks": s.Blocks, "prefix_known": !s.Private,
		"distinct_blocks": math.Round(s.Distinct.Value), "reused_blocks": math.Round(s.Reused.Value),
		"reused_tokens": math.Round(s.ReusedTokens.Value), "reuse_ratio": s.Reuse(),
		"requests_with_reuse": s.WithReuse.Value, "prefix_approximate": s.Reused.Approximate,
		"suits": s.Suits(),
	}
	if s.Graph.Waiting > 0 {
		values["graph"] = &s.Graph
	}
	text, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// values returns the statistics of the distribution for JSON.
func (l *Lengths) values(estimated bool) map[string]any {
	return map[string]any{
		"mean": l.Mean(), "min": l.Min, "p50": l.Quantile(0.5), "p90": l.Quantile(0.9), "p95": l.Quantile(0.95),
		"p99": l.Quantile(0.99), "max": l.Max, "total": l.Sum, "approximate": l.Approximate || estimated,
	}
}
