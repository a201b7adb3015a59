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
	WorkersResampled  *plan.Range       `json:"smallest_workers_resampled"`
	LoadResampled     *plan.Range       `json:"highest_load_resampled"`
	ValuesOfResamples []plan.Range      `json:"objectives_resampled"`
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

func (p *planSheet) planDocument() *PlanDocument {
	d := &PlanDocument{Found: p.plan.Best >= 0, Replays: len(p.plan.Measures), Front: []measureDocument{}}
	for i := range p.plan.Answers {
		d.Variants = append(d.Variants, p.answerDocument(&p.plan.Answers[i]))
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
		Settings: p.variantName(a.Variant), Found: a.Found, At: *p.measureDocument(&a.At),
		Smaller: p.measureDocuments(a.Smaller), SmallerRun: a.Checked, EverySmallerRun: a.EverySmaller, Larger: p.measureDocuments(a.Larger),
		Highest: p.measureDocument(a.Highest), Beyond: p.measureDocument(a.Beyond),
		SmallerResampled: []int{}, ValuesOfResamples: []plan.Range{},
	}
	if bars := a.Bars; bars != nil {
		d.Resamples, d.ResamplesMet, d.WorkersResampled, d.LoadResampled = bars.Resamples, bars.Met, bars.Workers, bars.Load
		d.SmallerResampled = append(d.SmallerResampled, bars.SmallerMet...)
		d.ValuesOfResamples = append(d.ValuesOfResamples, bars.Values...)
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

// measureDocument returns a measure as JSON has it, nil for none.
func (p *planSheet) measureDocument(m *plan.Measure) *measureDocument {
	if m == nil {
		return nil
	}
	d := &measureDocument{
		Settings: p.variantName(m.Variant), Workers: m.Shape.Workers, PrefillWorkers: m.Shape.Prefill, DecodeWorkers: m.Shape.Decode,
		GPUs: m.Shape.Size() * p.plan.GPUs, Load: m.Load, Met: m.Met, Missed: m.Missed, Objectives: []valueDocument{},
		RequestsPerS: m.RequestsPerS, OutputPerS: m.OutputTokensPerS, TotalPerS: m.TotalTokensPerS, Reused: m.PrefixReusedRatio,
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
