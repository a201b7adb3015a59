package collector

import (
	"fmt"
	"sort"
	"strconv"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Window is the time range of a report on the replay's clock. Window selects the requests that arrive, and the tokens
// that are gained, in this range. The zero value is the whole replay.
type Window struct {
	From sim.Time
	To   sim.Time // end of the range, exclusive; 0: the end of the replay
}

// IsSet reports whether w is not the whole replay.
func (w Window) IsSet() bool { return w != Window{} }

// Holds reports whether an instant is in w.
func (w Window) Holds(at sim.Time) bool { return at >= w.From && (w.To == 0 || at < w.To) }

// Divide returns the window with both instants divided by a number.
func (w Window) Divide(by float64) Window {
	return Window{w.From / sim.Time(by), w.To / sim.Time(by)}
}

// Within sets the window of the report. Within must be called before the first request arrives.
func (c *Collector) Within(w Window) { c.window, c.windowed = w, w.IsSet() }

// Window returns the window of the report.
func (c *Collector) Window() Window { return c.window }

// isMeasured reports whether the per-request statistics include a request.
func (c *Collector) isMeasured(r *Record) bool {
	return r.Counted() && (!c.windowed || c.window.Holds(r.Arrival))
}

// noteWithin records the tokens of those passes of a run that end in the window, and their latencies.
func (c *Collector) noteWithin(p *scheduler.Pass) {
	from := sort.Search(p.Count, func(i int) bool { return endOf(p, i) >= c.window.From })
	to := p.Count
	if c.window.To > 0 {
		to = sort.Search(p.Count, func(i int) bool { return endOf(p, i) >= c.window.To })
	}
	if from >= to {
		return
	}
	c.made += (to - from) * p.Tokens
	switch {
	case len(p.Nanos) > 0:
		c.spans.add(p.Nanos[from:to], int64(p.Decoding))
	case len(p.Ends) == 0:
		c.gaps.add(p.Gap, int64(to-from)*int64(p.Decoding))
	default:
		for i := from; i < to; i++ {
			c.gaps.add(p.GapOf(i), int64(p.Decoding))
		}
	}
	for _, gap := range p.Gaps {
		c.noteGap(p, gap)
	}
}

// endOf returns the end of pass i of a run.
func endOf(p *scheduler.Pass, i int) sim.Time {
	if i == p.Count-1 {
		return p.End
	}
	return p.Begins(i + 1)
}

// WindowCount is counts of the window of a report.
type WindowCount struct {
	From, To      sim.Time // To is at most the instant of the last token
	Before, After int      // number of requests that arrived before, and after
	Requests      int      // number of requests that arrived in the window
	Finished      int      // number of requests with their last token in the window
	Input         int      // prompt tokens of requests with their first token in the window
	Output        int      // number of tokens gained in the window
}

func (n WindowCount) String() string {
	return fmt.Sprintf("%.0f to %.0f ms; %d of %d requests arrived in it, %d before and %d after",
		float64(n.From), float64(n.To), n.Requests, n.Before+n.Requests+n.After, n.Before, n.After)
}

// CountWindow returns the counts of the window.
func (c *Collector) CountWindow() WindowCount {
	t := windowTotals{}
	if c.fold != nil {
		t = c.fold.window
	}
	for i := range c.records {
		t.add(c.window, &c.records[i])
	}
	n := t.WindowCount
	n.From, n.Output = c.window.From, c.made
	if n.To = t.end; c.window.To > 0 {
		n.To = min(t.end, c.window.To)
	}
	n.To = max(n.To, n.From)
	return n
}

// windowTotals is sums over requests for WindowCount.
type windowTotals struct {
	WindowCount
	end sim.Time // instant of the last token
}

func (n *windowTotals) add(w Window, r *Record) {
	switch {
	case r.Arrival < w.From:
		n.Before++
	case !w.Holds(r.Arrival):
		n.After++
	default:
		n.Requests++
	}
	if !r.Counted() {
		return
	}
	n.end = max(n.end, r.Last)
	if w.Holds(r.First) {
		n.Input += int(r.InputTokens)
	}
	if w.Holds(r.Last) && r.Tokens >= r.OutputTokens {
		n.Finished++
	}
}

// CheckWindow returns an error if no request has arrived in the window.
func (c *Collector) CheckWindow() error {
	if !c.window.IsSet() {
		return nil
	}
	if n := c.CountWindow(); n.Requests == 0 {
		return fmt.Errorf("no request arrives in the window %v: %d arrive before it and %d after, use another window", c.window, n.Before, n.After)
	}
	return nil
}

func (w Window) String() string {
	if w.To == 0 {
		return "from " + decimalOf(w.From) + " ms on"
	}
	return "from " + decimalOf(w.From) + " to " + decimalOf(w.To) + " ms"
}

func decimalOf(at sim.Time) string { return strconv.FormatFloat(float64(at), 'f', -1, 64) }

// measureWindow sets the fields of a report that differ for a window.
func (c *Collector) measureWindow(r *Report) {
	n := c.CountWindow()
	r.Requests, r.DurationMS = n.Requests, float64(n.To-n.From)
	r.divideBySeconds(n.Finished, n.Input, n.Output)
	r.Add(
		Of("window_from_ms", float64(n.From)), Of("window_to_ms", float64(n.To)),
		Of("window_requests_before", n.Before), Of("window_requests_after", n.After),
		Of("window_finished_requests", n.Finished), Of("window_input_tokens", n.Input), Of("window_output_tokens", n.Output),
	)
}

// describeWindow returns a description of the window, "" if the report covers the whole replay.
func (r *Report) describeWindow() string {
	values := r.Numbers()
	if _, ok := values["window_to_ms"]; !ok {
		return ""
	}
	n := WindowCount{
		From: sim.Time(values["window_from_ms"]), To: sim.Time(values["window_to_ms"]), Requests: r.Requests,
		Before: int(values["window_requests_before"]), After: int(values["window_requests_after"]),
	}
	return terminal.WrapLine("Window: "+n.String(), 4) + "\n"
}
