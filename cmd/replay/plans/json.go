package plans

import (
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/cmd/schedules"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/report/parquet"
)

// PlanDocument is a plan as JSON.
type PlanDocument struct {
	Inputs   []plan.Setting      `json:"inputs"`            // given flags, the trace, and the values that are tried
	Survive  string              `json:"survive,omitempty"` // what may fail at once: a number of workers, or zone
	Found    bool                `json:"found"`
	Best     *answerDocument     `json:"best"` // null when no cluster meets
	Variants []answerDocument    `json:"variants"`
	Front    []measureDocument   `json:"pareto_front"`
	Replays  int                 `json:"replays"`
	Requests int                 `json:"requests_replayed"`         // sum of all replays
	Limits   []boundDocument     `json:"limits"`                    // causes that limit the best cluster, and smaller clusters that miss
	Sources  []sourceDocument    `json:"uncertainty,omitempty"`     // needs with each single source of uncertainty
	Hopeless string              `json:"no_workers_help,omitempty"` // why no number of workers meets the objectives
	Nearest  string              `json:"nearest_slo,omitempty"`     // objectives that the nearest cluster meets, as a value of --slo
	WhatIf   []whatIfDocument    `json:"what_if,omitempty"`         // with --what-if
	Search   *searchDocument     `json:"search,omitempty"`          // the search for settings; absent without a search
	ByHour   *schedules.Document `json:"by_hour,omitempty"`         // with --by-hour
	Emitted  []emittedDocument   `json:"emitted,omitempty"`         // with --emit
}

type answerDocument struct {
	Settings          string             `json:"settings"`
	CannotRun         string             `json:"cannot_run,omitempty"` // why; nothing else is known then
	Assumes           map[string]string  `json:"assumptions,omitempty"`
	Found             bool               `json:"found"`
	At                *measureDocument   `json:"at_load_1"` // null where it cannot run
	Smaller           []measureDocument  `json:"one_worker_less"`
	SmallerRun        int                `json:"smaller_clusters_run"`
	EverySmallerRun   bool               `json:"every_smaller_cluster_run"`
	Larger            []measureDocument  `json:"larger_clusters_that_miss"`
	Highest           *measureDocument   `json:"highest_load"`
	Beyond            *measureDocument   `json:"next_load_misses"`
	Resamples         int                `json:"resamples"`
	Confident         *confidentDocument `json:"confident"` // null where none was looked for
	ResamplesMet      int                `json:"resamples_met"`
	SmallerResampled  []int              `json:"one_worker_less_resamples_met"`
	WorkersResampled  *plan.Range        `json:"smallest_workers_resampled"`
	LoadResampled     *plan.Range        `json:"highest_load_resampled"`
	ValuesOfResamples []plan.Range       `json:"objectives_resampled"`
}

// confidentDocument is the cluster that meets the objectives in enough resamples.
type confidentDocument struct {
	Found      bool    `json:"found"`
	Workers    int     `json:"workers"`
	Prefill    int     `json:"prefill_workers"`
	Decode     int     `json:"decode_workers"`
	GPUs       int     `json:"gpus"`
	Met        int     `json:"resamples_met"`
	Confidence float64 `json:"confidence"`
	ModelError float64 `json:"model_error"` // the largest of PassTimes, as a share
	// PassTimes is the range of the factor between passes of measured servers and passes of the model. PassTimes is
	// nil if no server was measured; then the range is symmetric.
	PassTimes *plan.Range `json:"pass_time_factors,omitempty"`
	PerHour   float64     `json:"cost_per_hour"` // 0 without a price
}

type measureDocument struct {
	Settings       string          `json:"settings"`
	Kinds          string          `json:"kinds,omitempty"` // of workers, in a mix
	Workers        int             `json:"workers"`
	PrefillWorkers int             `json:"prefill_workers"`
	DecodeWorkers  int             `json:"decode_workers"`
	GPUs           int             `json:"gpus"`
	PerHour        float64         `json:"cost_per_hour,omitempty"` // absent without a price
	Load           float64         `json:"load"`
	Met            bool            `json:"met"`
	Missed         string          `json:"missed"`
	Objectives     []valueDocument `json:"objectives"`
	RequestsPerS   float64         `json:"request_throughput_rps"`
	OutputPerS     float64         `json:"output_throughput_tok_s"`
	TotalPerS      float64         `json:"total_throughput_tok_s"`
	Reused         float64         `json:"prefix_cache_reused_ratio"`
	Shed           *int            `json:"shed_requests,omitempty"`     // with --admission
	Rejected       int             `json:"rejected_requests,omitempty"` // prompts longer than the engines take
	Capped         int             `json:"length_capped_requests,omitempty"`
	CostOutput     *float64        `json:"cost_per_million_output_tokens"` // null without --gpu-cost
	CostTotal      *float64        `json:"cost_per_million_tokens"`
}

type valueDocument struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Met   bool    `json:"met"`
}

func (p *planSheet) planDocument() *PlanDocument {
	d := &PlanDocument{Survive: p.flags.survive.text, Inputs: p.inputs, Found: p.plan.Best >= 0, Replays: len(p.plan.Measures), Requests: p.plan.Requests, Front: []measureDocument{}}
	for i := range p.plan.Answers {
		d.Variants = append(d.Variants, p.answerDocument(&p.plan.Answers[i]))
	}
	d.Limits = p.bounds.documents()
	d.Sources = p.sourceDocuments()
	if p.hopeless != nil {
		d.Hopeless = p.hopeless.Error()
	}
	if p.reachable != nil {
		d.Nearest = p.reachable.flag()
	}
	d.WhatIf = p.whatIfDocuments()
	d.ByHour, d.Emitted = p.byHourDocument(), p.emittedDocuments()
	if p.narrowed != nil {
		d.Search = p.narrowed.document()
	}
	if d.Found {
		d.Best = &d.Variants[p.plan.Best]
	}
	for i := range p.plan.Front {
		d.Front = append(d.Front, *p.measureDocument(&p.plan.Front[i].Measure))
	}
	return d
}

func (p *planSheet) answerDocument(a *plan.Answer) answerDocument {
	d := answerDocument{
		Settings: p.variantName(a.Variant), Found: a.Found,
		Smaller: p.measureDocuments(a.Smaller), SmallerRun: a.Checked, EverySmallerRun: a.EverySmaller, Larger: p.measureDocuments(a.Larger),
		Highest: p.measureDocument(a.Highest), Beyond: p.measureDocument(a.Beyond),
		SmallerResampled: []int{}, ValuesOfResamples: []plan.Range{},
	}
	if a.Refused != nil {
		d.CannotRun = a.Refused.Error()
		return d
	}
	d.Assumes = runs.AssumptionsByKey(p.assumptionsOf(a))
	d.At = p.measureDocument(&a.At)
	if p.plan.Variants[a.Variant].Fixed.Size() > 0 && p.flags.confidence > 0 {
		d.Resamples, d.ResamplesMet = p.flags.resamples, a.ResamplesMet
	}
	if bars := a.Bars; bars != nil {
		d.Resamples, d.ResamplesMet, d.WorkersResampled, d.LoadResampled = bars.Resamples, bars.Met, bars.Workers, bars.Load
		d.SmallerResampled = append(d.SmallerResampled, bars.SmallerMet...)
		d.ValuesOfResamples = append(d.ValuesOfResamples, bars.Values...)
	}
	if c := a.Confident; c != nil {
		gpus := p.plan.GPUs(a.Variant, c.Shape)
		d.Confident = &confidentDocument{
			Found: c.Found, Workers: c.Shape.Workers, Prefill: c.Shape.Prefill, Decode: c.Shape.Decode, GPUs: gpus, Met: c.Met, Confidence: c.Share,
			PerHour: p.plan.PerHour(a.Variant, c.Shape),
		}
		e := p.flags.modelErrorOf(&p.runner.choices[a.Variant].spec)
		if d.Confident.ModelError = e.most(); e.servers > 0 {
			d.Confident.PassTimes = &plan.Range{P5: roundFactor(e.lowest()), Median: roundFactor(e.centre), P95: roundFactor(e.high)}
		}
	}
	return d
}

func (p *planSheet) measureDocuments(all []plan.Measure) []measureDocument {
	documents := make([]measureDocument, len(all))
	for i := range all {
		documents[i] = *p.measureDocument(&all[i])
	}
	return documents
}

// measureDocument returns the JSON form of a measure, nil for nil.
func (p *planSheet) measureDocument(m *plan.Measure) *measureDocument {
	if m == nil {
		return nil
	}
	cluster := p.runner.choices[m.Variant].clusterOf(m.Shape)
	d := &measureDocument{
		Settings: p.variantName(m.Variant), Kinds: cluster.Entry().DescribeKinds(), Workers: m.Shape.Workers, PrefillWorkers: m.Shape.Prefill, DecodeWorkers: m.Shape.Decode,
		GPUs: p.plan.GPUs(m.Variant, m.Shape), PerHour: p.plan.PerHour(m.Variant, m.Shape), Load: m.Load, Met: m.Met, Missed: m.Missed, Objectives: []valueDocument{},
		RequestsPerS: m.RequestsPerS, OutputPerS: m.OutputTokensPerS, TotalPerS: m.TotalTokensPerS, Reused: m.PrefixReusedRatio,
	}
	d.Rejected, d.Capped = m.Rejected, m.Capped
	if m.Arrived > 0 {
		d.Shed = &m.Shed
	}
	for _, v := range m.Values {
		d.Objectives = append(d.Objectives, valueDocument(v))
	}
	if p.flags.cost > 0 {
		output, total := p.cost(m, m.OutputTokensPerS), p.cost(m, m.TotalTokensPerS)
		d.CostOutput, d.CostTotal = &output, &total
	}
	return d
}

// fileForms returns the writers of plan files, by extension. CSV, JSON and Parquet files have a row per replay.
func (p *planSheet) fileForms() map[string]func(io.Writer) error {
	t := p.makeTable(p.plan.Measures)
	return map[string]func(io.Writer) error{
		"csv": t.WriteCSV, "json": t.WriteJSON,
		"parquet": func(w io.Writer) error { return parquet.WriteTable(w, t) },
		"html":    func(w io.Writer) error { return html.WriteSheet(w, p.makePage(t)) },
	}
}

// makeTable returns a row per measure.
func (p *planSheet) makeTable(measures []plan.Measure) *table.Table {
	t := &table.Table{Columns: []table.Column{{Name: "settings", Setting: true}}}
	t.AddNumbers(true, "workers", "prefill_workers", "decode_workers", "gpus", "load", "resample")
	t.AddColumns("met", "missed", "pareto_front")
	if len(measures) > 0 {
		for _, v := range measures[0].Values {
			t.AddNumbers(false, strings.ReplaceAll(v.Name, " ", "_")+"_"+v.Unit)
		}
	}
	t.AddNumbers(false, "request_throughput_rps", "output_throughput_tok_s", "total_throughput_tok_s", "prefix_cache_reused_ratio")
	if p.flags.cost > 0 {
		t.AddNumbers(false, "cost_per_million_output_tokens", "cost_per_million_tokens")
	}
	for i := range measures {
		t.Rows = append(t.Rows, p.makeRow(&measures[i]))
	}
	return t
}

// makeRow returns the values of a measure, in the order of the columns.
func (p *planSheet) makeRow(m *plan.Measure) []any {
	gpus := p.plan.GPUs(m.Variant, m.Shape)
	count := func(n int) any {
		if n == 0 {
			return nil // of the other topology
		}
		return float64(n)
	}
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	front := slices.ContainsFunc(p.plan.Front, func(r plan.Row) bool { return r.Point == m.Point })
	row := []any{
		text(p.variantName(m.Variant)), count(m.Shape.Workers), count(m.Shape.Prefill), count(m.Shape.Decode), float64(gpus), m.Load, float64(m.Sample),
		formatYes(m.Met), text(m.Missed), formatYes(front),
	}
	for _, v := range m.Values {
		row = append(row, v.Value)
	}
	row = append(row, m.RequestsPerS, m.OutputTokensPerS, m.TotalTokensPerS, m.PrefixReusedRatio)
	if p.flags.cost > 0 {
		row = append(row, p.cost(m, m.OutputTokensPerS), p.cost(m, m.TotalTokensPerS))
	}
	return row
}

func formatYes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}
