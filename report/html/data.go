package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/explain"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/saturation"
	"github.com/replay-llm/replay/report/slo"
)

// page is the data of a page for its script.
type page struct {
	Title string    `json:"title"`
	Made  string    `json:"made"`
	Parts []string  `json:"parts"` // of a ledger
	Curve []float64 `json:"curve"` // the shares at which quantiles are given
	Drawn []string  `json:"drawn"` // the curves of each run, in order
	Runs  []run     `json:"runs"`
}

type run struct {
	Name    string            `json:"name"`
	Facts   [][2]string       `json:"facts"`
	Load    [2]string         `json:"load"`    // whether the cluster kept up, in a word and a sentence; "": not judged
	Assumes [][2]string       `json:"assumes"` // what the result rests on
	Held    []objective       `json:"held"`    // objectives of the run
	Paired  *diff.Paired      `json:"paired"`  // comparison with the first run; nil: not compared
	Report  map[string]any    `json:"report"`
	Curves  map[string]*curve `json:"curves"`
	Classes []class           `json:"classes"` // empty: there are none
	Mean    []float64         `json:"mean"`    // ledger of the mean request in ms; empty: no ledgers
	Slowest []slow            `json:"slowest"`
	Time    *overTime         `json:"time"` // nil: not recorded
	Scaling *scaled           `json:"scaling,omitempty"`
	Tasks   *tasked           `json:"tasks,omitempty"`
}

// slow is one of the slowest requests.
type slow struct {
	Title string    `json:"title"`
	Where string    `json:"where"`
	Input int       `json:"input"`
	Out   int       `json:"output"`
	Reuse int       `json:"reused"`
	TTFT  float64   `json:"ttft"`
	E2E   float64   `json:"e2e"`
	Parts []float64 `json:"parts"` // empty: no ledger was kept
	Holds []held    `json:"holds"`
}

// held is a request that delayed another request.
type held struct {
	Title string  `json:"title"`
	MS    float64 `json:"ms"`
}

const (
	slowest = 12 // requests, and tasks, on the page
	holders = 3  // maximum number of delaying requests per request, and of hops
)

// partNames returns the parts of ledgers, the front end last and only if a run has any.
func partNames(runs []Run) []string {
	all := make([]string, len(ledger.Parts()))
	for _, p := range ledger.Parts() {
		all[p] = p.String()
	}
	for i := range runs {
		if slices.ContainsFunc(runs[i].Rows, func(r requests.Row) bool { return r.Parts[ledger.FrontEnd].Known() }) {
			return all
		}
	}
	return all[:ledger.FrontEnd]
}

// newRun returns the data of a run for the page, with the named curves.
func newRun(r *Run, curves []string) run {
	out := run{Name: r.Name, Facts: r.Facts, Held: listObjectives(r.Report), Paired: r.Paired, Curves: newCurves(r, curves), Classes: listClasses(r), Mean: meanLedger(r.Rows)}
	out.fillReport(r.Report)
	x := explain.Run{Trace: r.Trace, Rows: r.Rows, Log: r.Log}
	for _, id := range x.Slowest(slowest) {
		out.Slowest = append(out.Slowest, newSlow(&x, id))
	}
	if r.Scaling != nil {
		out.Scaling = newScaled(r.Scaling, r.Report.DurationMS)
	}
	if r.Tasks != nil {
		out.Tasks = newTasked(r.Tasks)
	}
	if r.Series != nil {
		out.Time = newOverTime(r.Series)
		for _, ms := range r.Faults {
			out.Time.Faults = append(out.Time.Faults, ms/1000)
		}
	}
	return out
}

// fillReport copies the values of a report, and separately its verdict on the load and its assumptions.
// listObjectives returns the objectives. The values of an object get separate names.
func (out *run) fillReport(report *collector.Report) {
	out.Report = map[string]any{}
	if s, ok := saturation.Read(report); ok {
		out.Load = [2]string{string(s.Verdict), strings.TrimPrefix(s.String(), string(s.Verdict)+": ")}
	}
	for key, value := range report.Values() {
		parts, object := value.([]collector.Field)
		switch {
		case key == "saturation" || key == "saturation_test" || strings.HasPrefix(key, "slo_"): // said elsewhere
		case key == slo.ClassesKey || strings.HasPrefix(key, "class_") && key != "class_fairness": // listClasses has them
		case !object:
			out.Report[key] = value
		case key == collector.AssumptionsKey:
			for _, f := range parts {
				out.Assumes = append(out.Assumes, [2]string{strings.ReplaceAll(f.Key, "_", " "), fmt.Sprint(f.Value())})
			}
		default:
			for _, f := range parts {
				out.Report[key+"_"+f.Key] = f.Value()
			}
		}
	}
}

func newSlow(x *explain.Run, id int) slow {
	r := &x.Rows[id]
	s := slow{
		Title: requestTitle(r), Where: fmt.Sprint(int(r.Worker)), Input: r.Input, Out: r.Tokens, Reuse: r.Reused,
		TTFT: roundDigits(float64(r.TTFT)), E2E: roundDigits(float64(r.E2E)),
	}
	if r.PrefillWorker.Known() {
		s.Where = fmt.Sprintf("%d → %d", r.PrefillWorker, r.Worker)
	}
	if !r.Explained() {
		return s
	}
	for _, ms := range r.Parts {
		if ms.Known() { // the last part may be missing
			s.Parts = append(s.Parts, roundDigits(float64(ms)))
		}
	}
	holds := x.Blame(id)
	for i := range holds[:min(holders, len(holds))] {
		s.Holds = append(s.Holds, held{fmt.Sprint(x.Rows[holds[i].Request].ID), roundDigits(holds[i].Total())})
	}
	return s
}

func requestTitle(r *requests.Row) string {
	if r.Line > 0 {
		return fmt.Sprintf("%d (line %d)", r.ID, r.Line)
	}
	return fmt.Sprint(r.ID)
}

// meanLedger returns the mean ledger of all finished requests.
func meanLedger(rows []requests.Row) []float64 {
	sums, n := make([]float64, ledger.FrontEnd), 0
	for i := range rows {
		if !rows[i].Explained() {
			continue
		}
		n++
		for p, ms := range rows[i].Parts {
			if !ms.Known() {
				continue
			}
			if p == len(sums) {
				sums = append(sums, 0)
			}
			sums[p] += float64(ms)
		}
	}
	if n == 0 {
		return nil
	}
	for p := range sums {
		sums[p] = roundDigits(sums[p] / float64(n))
	}
	return sums
}

// roundDigits rounds a number to five digits, or to a whole number.
func roundDigits(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, max(0, 4-math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*scale) / scale
}
