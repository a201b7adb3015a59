package calibrations

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/report/html"
)

// writeSides writes the measured values next to the simulated values.
func (v *validated) writeSides(line func(format string, args ...any)) {
	noise, width := false, 18
	for i := range v.Sides {
		width = max(width, len(v.Sides[i].Name))
		noise = noise || v.Sides[i].Noise != nil
	}
	head := ""
	if noise {
		head = "repeats of the run"
	}
	line("%s", strings.TrimRight(fmt.Sprintf("%-*s   measured    simulated       off  %s", width+2, "Side by side", head), " "))
	for i := range v.Sides {
		s := &v.Sides[i]
		text := ""
		if s.Noise != nil {
			text = formatRate(s, s.Noise[0]) + " to " + formatRate(s, s.Noise[1])
		}
		text = fmt.Sprintf("  %-*s %10s   %10s  %8s  %s", width, s.Name, formatSide(s, s.Measured), formatSide(s, s.Simulated), formatRate(s, s.Off()), text)
		line("%s", strings.TrimRight(text, " "))
	}
}

func formatSide(s *calibrate.Side, v float64) string {
	if s.Count {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	if s.IsShare() {
		return fmt.Sprintf("%.2f %%", 100*v)
	}
	return fmt.Sprintf("%.2f ms", 1000*v)
}

// formatRate formats the error of a simulated value: in percentage points for a share, in per cent for a time.
func formatRate(s *calibrate.Side, r calibrate.Rate) string {
	if s.IsShare() {
		return fmt.Sprintf("%+.2f pt", 100*float64(r))
	}
	if math.IsNaN(float64(r)) || math.IsInf(float64(r), 0) { // division by 0
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*float64(r))
}

// overWindows is the number of time windows of a run on a page.
const overWindows = 60

// makePage returns the page of a validation: the errors of means, and measured against simulated values, by request
// and over time. within is the accepted error of means; 0: any error.
func (v *validated) makePage(c *calibrate.Compared, within float64, command string) *html.SheetPage {
	worst := calibrate.FurthestMean(v.Checks)
	answer := &html.Answer{
		Number: formatOff(worst.Mean), Under: "mean " + worst.Metric + ", the mean that is furthest off",
		Verdict: fmt.Sprintf("%d requests, simulated against measured: %s.", v.Requests, describeMeans(v.Checks[0].Errors)),
	}
	if within > 0 {
		answer.Good = new(math.Abs(worst.Mean) <= within)
		answer.Verdict += fmt.Sprintf(" Means must be within %g %%.", 100*within)
	}
	errors := newErrorGrid("Errors, simulated to measured")
	for _, check := range v.Checks {
		addErrors(&errors, check.Set, check.Errors)
	}
	answer.Grids = []html.Grid{errors}
	answer.Facts = listRests(v.assumed, v.Notes, command)
	page := &html.SheetPage{Title: "Measured and simulated: " + v.Run, Answer: answer}
	addCompared(page, "", c)
	return page
}

// describeMeans returns the error of each mean in words.
func describeMeans(all []calibrate.Errors) string {
	var parts []string
	for _, e := range all {
		parts = append(parts, fmt.Sprintf("mean %s %s", e.Metric, formatOff(e.Mean)))
	}
	return strings.Join(parts, ", ")
}

func formatOff(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "unknown"
	}
	if math.Abs(share) < 0.0005 {
		return "0 %"
	}
	return strings.Replace(fmt.Sprintf("%+.1f %%", 100*share), "-", "−", 1)
}

// newErrorGrid returns an empty grid of errors.
func newErrorGrid(title string) html.Grid {
	return html.Grid{Title: title, Head: []string{"", "requests", "measured mean", "simulated mean", "mean", "p50", "p90", "p99", "single requests, median"}}
}

// addErrors adds a row for each metric of a group of requests.
func addErrors(g *html.Grid, set string, all []calibrate.Errors) {
	for _, e := range all {
		each := formatOff(e.Each)
		if e.Bucketed {
			each = ""
		}
		row := []string{e.Metric + ", " + set, strconv.Itoa(e.Requests), html.FormatMS(1000 * e.Measured), html.FormatMS(1000 * e.Measured * (1 + e.Mean))}
		g.Rows = append(g.Rows, append(row, formatOff(e.Mean), formatOff(e.P50), formatOff(e.P90), formatOff(e.P99), strings.TrimPrefix(each, "+")))
	}
}

// listRests returns the assumptions of a result, and the command.
func listRests(assumed []engines.Assumption, notes []string, command string) []html.Facts {
	assumes := html.Facts{Title: "What this assumes"}
	for _, a := range assumed {
		assumes.Rows = append(assumes.Rows, [2]string{strings.ReplaceAll(a.Key, "_", " "), a.Text})
	}
	for _, n := range notes {
		assumes.Rows = append(assumes.Rows, [2]string{"assumed", n})
	}
	all := []html.Facts{{Title: "What was asked", Rows: [][2]string{{"command", command}}}}
	if len(assumes.Rows) > 0 {
		all = slices.Insert(all, 0, assumes)
	}
	return all
}

// addCompared adds the statistics of a run and its replay to a page, and both by request and over time. of is the
// name of the run if there are several runs.
func addCompared(page *html.SheetPage, of string, c *calibrate.Compared) {
	if of != "" {
		of = ": " + of
	}
	sides := html.Grid{Title: "Measured and simulated" + of, Head: []string{"", "measured", "simulated", "off"}}
	noisy := slices.ContainsFunc(c.Sides, func(s calibrate.Side) bool { return s.Noise != nil })
	if noisy {
		sides.Head = append(sides.Head, "repeats of the run")
	}
	for i := range c.Sides {
		s := &c.Sides[i]
		row := []string{s.Name, pageSide(s, s.Measured), pageSide(s, s.Simulated), pageRate(s, s.Off())}
		if noisy {
			text := ""
			if s.Noise != nil {
				text = pageRate(s, s.Noise[0]) + " to " + pageRate(s, s.Noise[1])
			}
			row = append(row, text)
		}
		sides.Rows = append(sides.Rows, row)
	}
	page.Answer.Grids = append(page.Answer.Grids, sides)
	page.Tables = append(page.Tables,
		html.SheetTable{Title: "Each request" + of, Table: tabulateRequests(c), X: "measured_ttft_ms", Y: "simulated_ttft_ms", By: "server", Few: []string{"measured_ttft_ms", "simulated_ttft_ms", "measured_e2e_ms", "simulated_e2e_ms", "ttft_off"}},
		html.SheetTable{Title: "Over time" + of, Table: tabulateWindows(c), X: "time_s", Y: "ttft_ms", By: "side", Few: []string{"requests", "ttft_ms", "tpot_ms", "e2e_ms"}},
	)
}

// pageSide returns a measured or simulated value in the form of pages.
func pageSide(s *calibrate.Side, v float64) string {
	if s.Count || s.IsShare() {
		return formatSide(s, v)
	}
	return html.FormatMS(1000 * v)
}

// pageRate returns the error of a simulated value in the form of pages.
func pageRate(s *calibrate.Side, r calibrate.Rate) string {
	if s.IsShare() {
		return formatRate(s, r)
	}
	return formatOff(float64(r))
}

// tabulateRequests returns a row per request.
func tabulateRequests(c *calibrate.Compared) *table.Table {
	t := &table.Table{Columns: []table.Column{{Name: "request", Setting: true}, {Name: "server", Setting: true}}}
	t.AddNumbers(false,
		"arrival_s", "input_tokens", "output_tokens", "measured_ttft_ms", "simulated_ttft_ms", "measured_tpot_ms", "simulated_tpot_ms",
		"measured_e2e_ms", "simulated_e2e_ms", "measured_cached", "simulated_cached", "ttft_off", "e2e_off")
	for i := range c.Requests {
		b := &c.Requests[i]
		server := b.Server
		if server == "" {
			server = "worker " + strconv.Itoa(b.Worker)
		}
		row := []any{b.ID, server, b.Arrival, float64(b.InputTokens), float64(b.OutputTokens)}
		for _, pair := range [][2]float64{b.TTFT, b.TPOT, b.E2E} {
			row = append(row, numberOrNone(1000*pair[0]), numberOrNone(1000*pair[1]))
		}
		cached := any(nil)
		if b.Cached[0] >= 0 {
			cached = float64(b.Cached[0])
		}
		row = append(row, cached, float64(b.Cached[1]), numberOrNone(b.TTFT[1]/b.TTFT[0]-1), numberOrNone(b.E2E[1]/b.E2E[0]-1))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// numberOrNone returns a value for a table cell, nil for NaN and infinity.
func numberOrNone(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

// tabulateWindows returns the measured and the simulated means of the requests that arrived in each of several equal
// time windows.
func tabulateWindows(c *calibrate.Compared) *table.Table {
	t := &table.Table{Columns: []table.Column{{Name: "side", Setting: true}}}
	t.AddNumbers(false, "time_s", "requests", "ttft_ms", "tpot_ms", "e2e_ms")
	begin := c.Requests[0].Arrival
	width := max((c.Requests[len(c.Requests)-1].Arrival-begin)/overWindows, 1e-3)
	for from := 0; from < len(c.Requests); {
		window := math.Floor((c.Requests[from].Arrival - begin) / width)
		to := from
		for to < len(c.Requests) && math.Floor((c.Requests[to].Arrival-begin)/width) == window {
			to++
		}
		for k, side := range []string{"measured", "simulated"} {
			row := []any{side, begin + float64(window*width), float64(to - from)}
			for _, of := range []func(*calibrate.Both) float64{
				func(b *calibrate.Both) float64 { return b.TTFT[k] }, func(b *calibrate.Both) float64 { return b.TPOT[k] }, func(b *calibrate.Both) float64 { return b.E2E[k] },
			} {
				sum, n := 0.0, 0
				for i := from; i < to; i++ {
					if v := of(&c.Requests[i]); !math.IsNaN(v) {
						sum, n = sum+v, n+1
					}
				}
				row = append(row, numberOrNone(1000*sum/float64(n)))
			}
			t.Rows = append(t.Rows, row)
		}
		from = to
	}
	return t
}
