package explore

import (
	"context"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/series"
)

// Answer has the results of a run for a page.
type Answer struct {
	Run      any      `json:"run"` // in the format of the page of replay report --html
	TTFT     OverTime `json:"ttft"`
	Digest   string   `json:"digest"`
	Command  string   `json:"command"`
	YAML     string   `json:"yaml"`
	Warnings []string `json:"warnings,omitempty"`
	// PerHour is the default cost of the cluster per hour. PerMillion is the cost per million output tokens. 0 means
	// unknown.
	GPUs       int     `json:"gpus,omitempty"`
	PerHour    float64 `json:"cost_per_hour,omitempty"`
	PerMillion float64 `json:"cost_per_million_tokens,omitempty"`
}

// Refusal is the error of settings that cannot run.
type Refusal struct {
	Error string `json:"error"`
	Flag  string `json:"flag,omitempty"` // the invalid setting, if it is known
	// Keys are the columns of a trace of unknown format. Columns is the suggested value of the setting columns, or
	// "".
	Keys    []string `json:"keys,omitempty"`
	Columns string   `json:"columns,omitempty"`
}

// Refuse converts an error to a Refusal with the invalid flag.
func Refuse(err error) Refusal {
	r := Refusal{Error: err.Error()}
	if unknown := new(formats.UnknownError); errors.As(err, &unknown) {
		r.Keys, r.Columns, r.Flag = unknown.Keys, unknown.Columns, "columns"
	}
	for _, m := range regexp.MustCompile(`(?:--|^)([a-z][a-z-]*)`).FindAllStringSubmatch(r.Error, -1) {
		if r.Flag == "" && isKnob(m[1]) {
			r.Flag = m[1]
		}
	}
	return r
}

// one is a single run of settings.
type one struct {
	trace    *trace
	progress func(done, all int)
	o        *options.Options
	spec     replay.Spec
	workload *loadgen.Workload
	result   *harness.Result
	rows     []requests.Row
}

// prepare parses settings and reads their workload.
func (s *Session) prepare(settings Settings) (*one, error) {
	all, t, err := s.check(settings)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == options.TraceSetting {
			all[i].Value = t.file()
		}
	}
	o, file, mode, err := s.reader.OptionsOf(all)
	if err != nil {
		return nil, err
	}
	r := &one{trace: t, progress: s.Progress, o: o}
	if r.spec, err = o.Spec(file, mode); err != nil {
		return nil, err
	}
	if usesProgram(&r.spec) {
		return nil, cli.Usagef("it asks a separate program (--policy-process, or scaler: process), which no page can start")
	}
	if err := o.Check(
		cli.Needs(len(o.Outputs.Slo.All) > 0, "with --slo", "slo-attainment"),
		cli.Wants(o.Outputs.Attainment >= 0 && o.Outputs.Attainment <= 1, "slo-attainment", "0 to 1"),
	); err != nil {
		return nil, err
	}
	r.workload, err = s.workload(t, &r.spec)
	return r, err
}

// check returns an error for settings that are not knobs. all are the settings sorted by name, and t is the trace.
func (s *Session) check(settings Settings) (all []plan.Setting, t *trace, err error) {
	knobs := s.Knobs()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !slices.Contains(s.carried, name) {
			if err := checkKnob(knobs, name, settings[name]); err != nil {
				return nil, nil, err
			}
		}
		all = append(all, plan.Setting{Name: name, Value: settings[name]})
	}
	t, err = s.find(settings[options.TraceSetting])
	return all, t, err
}

// OpenTrace checks settings. file is the path of the trace for a replay.Spec. open reads the workload. Replays with
// the same reader settings share the workload.
func (s *Session) OpenTrace(settings Settings) (file string, open func(*replay.Spec) (*loadgen.Workload, error), err error) {
	_, t, err := s.check(settings)
	if err != nil {
		return "", nil, err
	}
	return t.file(), func(spec *replay.Spec) (*loadgen.Workload, error) { return s.workload(t, spec) }, nil
}

// replay runs a prepared replay with an observer.
func (r *one) replay(ctx context.Context, watch harness.Observer) (err error) {
	if r.result, err = r.spec.RunOn(ctx, r.workload, replay.Streams{Observer: watch, Progress: r.progress}); err != nil {
		return runs.ExplainError(err)
	}
	return nil
}

// mostMarks is the maximum number of faults that curves mark.
const mostMarks = 20

// Run replays settings.
func (s *Session) Run(ctx context.Context, settings Settings) (*Answer, error) {
	r, drawn, err := s.drawn(ctx, settings)
	if err != nil {
		return nil, err
	}
	inputs, err := r.trace.hash()
	if err != nil {
		return nil, err
	}
	digest := rundir.NewDigest(inputs, rundir.SettingsOf(r.spec.Recorded()), rundir.Lifecycles(r.rows))
	names := s.inOrder(settings)
	a := &Answer{Run: html.DrawnOf(drawn), TTFT: overTimeOf(r.rows), Digest: digest.Run, Command: commandOf(settings, names), YAML: yamlOf(settings, names), Warnings: r.spec.Warnings()}
	return a, a.addCost(r)
}

// drawn replays settings, and returns the run with the data that pages draw.
func (s *Session) drawn(ctx context.Context, settings Settings) (*one, *html.Run, error) {
	r, err := s.prepare(settings)
	if err != nil {
		return nil, nil, err
	}
	over := series.New(r.spec.KindNames()...)
	over.Grow(len(r.workload.Turns))
	if err := r.replay(ctx, over); err != nil {
		return nil, nil, err
	}
	r.rows = requests.Collect(r.result.Collector, runs.PlacesIn(r.workload), nil, nil)
	runs.Conclude(&r.spec, r.result)
	if _, _, err := runs.Judge(&r.o.Outputs, r.workload, r.rows, r.result); err != nil {
		return nil, nil, err
	}
	drawn := &html.Run{Name: r.trace.name, Trace: r.trace.name, Report: r.result.Report, Rows: r.rows, Series: over.File()}
	for _, x := range r.result.Incidents[:min(len(r.result.Incidents), mostMarks)] {
		drawn.Faults = append(drawn.Faults, float64(x.At))
	}
	return r, drawn, nil
}

// mostOnPage is the maximum number of runs on a page.
const mostOnPage = 8

// WritePage returns the page of replay report --html for several settings. Each run has a name.
func (s *Session) WritePage(ctx context.Context, all []Settings, names []string) (string, error) {
	if len(all) == 0 || len(all) > mostOnPage || len(all) != len(names) {
		return "", cli.Usagef("%d runs and %d names: a page has 1 to %d runs, each with a name", len(all), len(names), mostOnPage)
	}
	var list []html.Run
	for i, settings := range all {
		_, drawn, err := s.drawn(ctx, settings)
		if err != nil {
			return "", err
		}
		drawn.Name = names[i]
		drawn.Facts = [][2]string{{"command", commandOf(settings, s.inOrder(settings))}}
		if i > 0 {
			drawn.Paired = diff.PairRows(list[0].Rows, drawn.Rows)
		}
		list = append(list, *drawn)
	}
	var text strings.Builder
	err := html.Write(&text, html.Page{Title: list[len(list)-1].Trace}, list)
	return text.String(), err
}

// addCost adds the cost of the cluster.
func (a *Answer) addCost(r *one) error {
	gpus, err := r.spec.GPUs()
	if err != nil {
		return err
	}
	if gpus.Name == "" {
		return nil
	}
	a.GPUs, a.PerHour = gpus.Count, gpus.Price
	a.PerMillion = plan.CostPerMillion(1, gpus.Price, r.result.Report.OutputTokensPerS)
	return nil
}

// OverTime has the time to first token over arrival time. Each list has one number per bin with requests.
type OverTime struct {
	Seconds []float64 `json:"s"` // middle of the bin, in s
	Median  []float64 `json:"median"`
	P99     []float64 `json:"p99"`
	Dots    Dots      `json:"dots"`
}

// Dots are latencies of single requests: the slowest request and a sample of the other requests of each bin.
type Dots struct {
	IDs     []int     `json:"id"`
	Seconds []float64 `json:"s"`
	MS      []float64 `json:"ms"`
}

// mostDots is the sample size of a bin.
const mostDots = 12

// add adds the requests of a bin.
func (d *Dots) add(rows []*requests.Row) {
	slowest := 0
	for i, r := range rows {
		if r.TTFT > rows[slowest].TTFT {
			slowest = i
		}
	}
	step := (len(rows) + mostDots - 1) / mostDots
	for i, r := range rows {
		if i%step != 0 && i != slowest {
			continue
		}
		d.IDs = append(d.IDs, r.ID)
		d.Seconds = append(d.Seconds, math.Round(float64(r.Arrival))/1000)
		d.MS = append(d.MS, math.Round(100*float64(r.TTFT))/100)
	}
}

// overTimeOf returns the time to first token over arrival time.
func overTimeOf(rows []requests.Row) OverTime {
	const bins = 120
	var out OverTime
	if len(rows) == 0 {
		return out
	}
	width := max(float64(rows[len(rows)-1].Arrival)/bins, 1)
	lists := make([][]*requests.Row, bins+1)
	for i := range rows {
		if r := &rows[i]; r.TTFT.Known() {
			at := min(int(float64(r.Arrival)/width), bins)
			lists[at] = append(lists[at], r)
		}
	}
	for i, list := range lists {
		if len(list) == 0 {
			continue
		}
		values := make([]float64, len(list))
		for k, r := range list {
			values[k] = float64(r.TTFT)
		}
		out.Dots.add(list)
		d := collector.Describe(values)
		out.Seconds = append(out.Seconds, (float64(i)+0.5)*width/1000)
		out.Median, out.P99 = append(out.Median, d.Median), append(out.P99, d.P99)
	}
	return out
}
