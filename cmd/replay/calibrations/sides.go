package calibrations

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/report/html"
)

// writeSides writes the measured values next to the simulated ones.
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

// formatRate writes how far a number is off: points of a share, per cent of a time.
func formatRate(s *calibrate.Side, r calibrate.Rate) string {
	if s.IsShare() {
		return fmt.Sprintf("%+.2f pt", 100*float64(r))
	}
	if math.IsNaN(float64(r)) || math.IsInf(float64(r), 0) { // of none
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*float64(r))
}

// overWindows is the number of windows that a page shows a run in.
const overWindows = 60

// makeSidesPage returns a page of measured against simulated, by request and over time.
func (v *validated) makeSidesPage(c *calibrate.Compared) *html.SheetPage {
	page := &html.SheetPage{Title: "Measured and simulated: " + v.Run}
	facts := html.Facts{Title: "What was replayed", Rows: [][2]string{{"requests", strconv.Itoa(v.Requests)}}}
	for _, a := range v.assumed {
		facts.Rows = append(facts.Rows, [2]string{strings.ReplaceAll(a.Key, "_", " "), a.Text})
	}
	for _, n := range v.Notes {
		facts.Rows = append(facts.Rows, [2]string{"assumed", n})
	}
	page.Facts = []html.Facts{facts, listSides(c)}
	page.Tables = []html.SheetTable{
		{Title: "Each request", Table: tabulateRequests(c), X: "measured_ttft_ms", Y: "simulated_ttft_ms", By: "server", Few: []string{"measured_ttft_ms", "simulated_ttft_ms", "measured_e2e_ms", "simulated_e2e_ms", "ttft_off"}},
		{Title: "Over time", Table: tabulateWindows(c), X: "time_s", Y: "ttft_ms", By: "side", Few: []string{"requests", "ttft_ms", "tpot_ms", "e2e_ms"}},
	}
	return page
}

func listSides(c *calibrate.Compared) html.Facts {
	facts := html.Facts{Title: "Measured, simulated, off"}
	for i := range c.Sides {
		s := &c.Sides[i]
		text := fmt.Sprintf("%s, %s, %s", formatSide(s, s.Measured), formatSide(s, s.Simulated), formatRate(s, s.Off()))
		if s.Noise != nil {
			text += fmt.Sprintf("; repeats %s to %s", formatRate(s, s.Noise[0]), formatRate(s, s.Noise[1]))
		}
		facts.Rows = append(facts.Rows, [2]string{s.Name, text})
	}
	return facts
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

// numberOrNone returns a value as a table has it, nil where there is no such number.
func numberOrNone(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

// tabulateWindows returns the means of the requests that arrived in each of equal windows
// of time, measured and simulated.
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
