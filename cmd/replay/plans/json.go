package plans

import (
	"github.com/replay-llm/replay/plan"
)

// PlanDocument is a plan as JSON.
type PlanDocument struct {
	Found    bool              `json:"found"`
	Best     *answerDocument   `json:"best"` // null when no cluster meets
	Variants []answerDocument  `json:"variants"`
	Front    []measureDocument `json:"pareto_front"`
	Replays  int               `json:"replays"`
}

type answerDocument struct {
	Settings          string            `json:"settings"`
	Found             bool              `json:"found"`
	At                measureDocument   `json:"at_load_1"`
	Smaller           []measureDocument `json:"one_worker_less"`
	SmallerRun        int               `json:"smaller_clusters_run"`
	EverySmallerRun   bool              `json:"every_smaller_cluster_run"`
	Larger            []measureDocument `json:"larger_clusters_that_miss"`
	Highest           *measureDocument  `json:"highest_load"`
	Beyond            *measureDocument  `json:"next_load_misses"`
	Resamples         int               `json:"resamples"`
	ResamplesMet      int               `json:"resamples_met"`
	SmallerResampled  []int             `json:"one_worker_less_resamples_met"`
	WorkersResampled  *rangeDocument    `json:"smallest_workers_resampled"`
	LoadResampled     *rangeDocument    `json:"highest_load_resampled"`
	ValuesOfResamples []rangeDocument   `json:"objectives_resampled"`
}

type measureDocument struct {
	Settings       string          `json:"settings"`
	Workers        int             `json:"workers"`
	PrefillWorkers int             `json:"prefill_workers"`
	DecodeWorkers  int             `json:"decode_workers"`
	GPUs           int             `json:"gpus"`
	Load           float64         `json:"load"`
	Met            bool            `json:"met"`
	Missed         string          `json:"missed"`
	Objectives     []valueDocument `json:"objectives"`
	RequestsPerS   float64         `json:"request_throughput_rps"`
	OutputPerS     float64         `json:"output_throughput_tok_s"`
	TotalPerS      float64         `json:"total_throughput_tok_s"`
	Reused         float64         `json:"prefix_cache_reused_ratio"`
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

type rangeDocument struct {
	P5     float64 `json:"p5"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
}

func (p *planSheet) planDocument() *PlanDocument {
	d := &PlanDocument{Found: p.plan.Best >= 0, Replays: len(p.plan.Measures), Front: []measureDocument{}}
	for i := range p.plan.Answers {
		d.Variants = append(d.Variants, p.answerDocument(&p.plan.Answers[i]))
	}
	if d.Found {
		d.Best = &d.Variants[p.plan.Best]
	}
	for i := range p.plan.Front {
		d.Front = append(d.Front, p.measureDocument(&p.plan.Front[i].Measure))
	}
	return d
}

func (p *planSheet) answerDocument(a *plan.Answer) answerDocument {
	d := answerDocument{
		Settings: p.variantName(a.Variant), Found: a.Found, At: p.measureDocument(&a.At),
		Smaller: []measureDocument{}, Larger: []measureDocument{}, SmallerRun: a.Checked, EverySmallerRun: a.EverySmaller,
		Highest: p.optionalMeasure(a.Highest), Beyond: p.optionalMeasure(a.Beyond),
		SmallerResampled: []int{}, ValuesOfResamples: []rangeDocument{},
	}
	for i := range a.Smaller {
		d.Smaller = append(d.Smaller, p.measureDocument(&a.Smaller[i]))
	}
	for i := range a.Larger {
		d.Larger = append(d.Larger, p.measureDocument(&a.Larger[i]))
	}
	if bars := a.Bars; bars != nil {
		d.Resamples, d.ResamplesMet = bars.Resamples, bars.Met
		d.SmallerResampled = append(d.SmallerResampled, bars.SmallerMet...)
		d.WorkersResampled, d.LoadResampled = documentRange(bars.Workers), documentRange(bars.Load)
		for i := range bars.Values {
			d.ValuesOfResamples = append(d.ValuesOfResamples, *documentRange(&bars.Values[i]))
		}
	}
	return d
}

func documentRange(r *plan.Range) *rangeDocument {
	if r == nil {
		return nil
	}
	return &rangeDocument{r.P5, r.Median, r.P95}
}

func (p *planSheet) optionalMeasure(m *plan.Measure) *measureDocument {
	if m == nil {
		return nil
	}
	d := p.measureDocument(m)
	return &d
}

func (p *planSheet) measureDocument(m *plan.Measure) measureDocument {
	d := measureDocument{
		Settings: p.variantName(m.Variant), Workers: m.Shape.Workers, PrefillWorkers: m.Shape.Prefill, DecodeWorkers: m.Shape.Decode,
		GPUs: m.Shape.Size() * p.plan.GPUs, Load: m.Load, Met: m.Met, Missed: m.Missed, Objectives: []valueDocument{},
		RequestsPerS: m.RequestsPerS, OutputPerS: m.OutputTokensPerS, TotalPerS: m.TotalTokensPerS, Reused: m.PrefixReusedRatio,
	}
	for _, v := range m.Values {
		d.Objectives = append(d.Objectives, valueDocument(v))
	}
	if p.flags.cost > 0 {
		output := plan.CostPerMillion(d.GPUs, p.flags.cost, m.OutputTokensPerS)
		total := plan.CostPerMillion(d.GPUs, p.flags.cost, m.TotalTokensPerS)
		d.CostOutput, d.CostTotal = &output, &total
	}
	return d
}
