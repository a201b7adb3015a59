package requests

import (
	"slices"

	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/parquet"
)

// Column is one column of the file.
type Column struct {
	Name string
	// Meaning is a sentence for people, with the unit.
	Meaning string
	// Required reports whether no row is without a value.
	Required bool
	// Kind is the type of the values in a Parquet file.
	Kind parquet.Kind

	repeats bool // many values in a row are the same, so that packing them pays

	// at returns where the value is: an *int, a *Count, an *MS, a *string or a
	// *Verdict.
	at func(*Row) any
}

// Columns are the columns of the file, in order.
func Columns() []Column {
	columns := slices.Concat(identityColumns(), instantColumns(), spanColumns(), ledgerParts(), decisionColumns())
	for i := range columns {
		c := &columns[i]
		switch c.at(new(Row)).(type) {
		case *int:
			c.Kind, c.Required = parquet.Int64, true
		case *Count:
			c.Kind = parquet.Int64
		case *MS:
			c.Kind = parquet.Double
		case *string:
			c.Kind = parquet.Text
		case *Verdict:
			c.Kind = parquet.Bool
		}
	}
	return columns
}

func identityColumns() []Column {
	return []Column{
		{Name: "id", Meaning: "place in the order of arrivals, from 0", at: func(r *Row) any { return &r.ID }},
		{Name: "session", Meaning: "the session as the trace names it, or its number", at: func(r *Row) any { return &r.Session }},
		{Name: "turn", Meaning: "index in the session, from 0", at: func(r *Row) any { return &r.Turn }},
		{Name: "line", Meaning: "line of the trace file, from 1", at: func(r *Row) any { return &r.Line }},
		{Name: "worker", Meaning: "worker that decoded it", at: func(r *Row) any { return &r.Worker }},
		{Name: "prefill_worker", Meaning: "worker of the prefill stage", at: func(r *Row) any { return &r.PrefillWorker }},
		{Name: "input_tokens", Meaning: "prompt tokens", at: func(r *Row) any { return &r.Input }},
		{Name: "output_tokens", Meaning: "answer tokens asked for", at: func(r *Row) any { return &r.Output }},
		{Name: "generated_tokens", Meaning: "answer tokens gained", at: func(r *Row) any { return &r.Tokens }},
		{Name: "reused_tokens", Meaning: "prompt tokens found in a cache, the most of any admission", at: func(r *Row) any { return &r.Reused }},
	}
}

func instantColumns() []Column {
	return []Column{
		{Name: "arrival_ms", Meaning: "instant of arrival", Required: true, repeats: true, at: func(r *Row) any { return &r.Arrival }},
		{Name: "routed_ms", Meaning: "instant at which the router placed it", repeats: true, at: func(r *Row) any { return &r.Routed }},
		{Name: "admit_ms", Meaning: "instant of the first admission to an engine", repeats: true, at: func(r *Row) any { return &r.Admit }},
		{Name: "first_token_ms", Meaning: "instant of the first token", at: func(r *Row) any { return &r.First }},
		{Name: "second_token_ms", Meaning: "instant of the second token", at: func(r *Row) any { return &r.Second }},
		{Name: "last_token_ms", Meaning: "instant of the last token", at: func(r *Row) any { return &r.Last }},
		{Name: "prefill_end_ms", Meaning: "instant at which the KV cache leaves the prefill worker", at: func(r *Row) any { return &r.PrefillEnd }},
		{Name: "decode_start_ms", Meaning: "instant at which the KV cache has reached the decode stage", at: func(r *Row) any { return &r.DecodeStart }},
		{Name: "decode_admit_ms", Meaning: "instant of the first admission to a decode engine", at: func(r *Row) any { return &r.DecodeAdmit }},
	}
}

func spanColumns() []Column {
	return []Column{
		{Name: "queue_ms", Meaning: "arrival to admission", repeats: true, at: func(r *Row) any { return &r.Queue }},
		{Name: "prefill_ms", Meaning: "admission to first token; with a prefill stage, to the end of the prompt there", at: func(r *Row) any { return &r.Prefill }},
		{Name: "transfer_ms", Meaning: "time the KV cache takes from the prefill worker to the decode stage", at: func(r *Row) any { return &r.Transfer }},
		{Name: "ttft_ms", Meaning: "arrival to first token", at: func(r *Row) any { return &r.TTFT }},
		{Name: "ttst_ms", Meaning: "first to second token", repeats: true, at: func(r *Row) any { return &r.TTST }},
		{Name: "tpot_ms", Meaning: "mean time per token after the first", at: func(r *Row) any { return &r.TPOT }},
		{Name: "itl_mean_ms", Meaning: "mean time between two tokens, the same number as tpot_ms", at: func(r *Row) any { return &r.ITLMean }},
		{Name: "itl_max_ms", Meaning: "longest time between two tokens", repeats: true, at: func(r *Row) any { return &r.ITLMax }},
		{Name: "e2e_ms", Meaning: "arrival to last token", at: func(r *Row) any { return &r.E2E }},
		{Name: "preemptions", Meaning: "times it lost its place in an engine", at: func(r *Row) any { return &r.Preemptions }},
	}
}

// ledgerParts are the uses of a request's time, which sum to e2e_ms.
func ledgerParts() []Column {
	columns := make([]Column, 0, len(ledger.Parts()))
	for _, p := range ledger.Parts() {
		columns = append(columns, Column{
			Name: "in_" + p.Key() + "_ms", Meaning: "part of e2e_ms (docs/explain.md): " + p.String(),
			repeats: p != ledger.Prefill && p != ledger.Alone && p != ledger.Stretched, // often 0
			at:      func(r *Row) any { return &r.Parts[p] },
		})
	}
	return columns
}

func decisionColumns() []Column {
	return []Column{
		{Name: "prompt_blocks", Meaning: "blocks of the prompt, as the KV router counts", at: func(r *Row) any { return &r.PromptBlocks }},
		{Name: "overlap_blocks", Meaning: "blocks of it the KV router saw cached on the chosen worker", at: func(r *Row) any { return &r.Overlap }},
		{Name: "cost_blocks", Meaning: "cost of the chosen worker", at: func(r *Row) any { return &r.Cost }},
		{Name: "runner_up", Meaning: "the cheapest other worker", at: func(r *Row) any { return &r.RunnerUp }},
		{Name: "runner_up_cost_blocks", Meaning: "its cost", at: func(r *Row) any { return &r.RunnerUpCost }},
		{Name: "slo_met", Meaning: "whether it met the objectives", at: func(r *Row) any { return &r.SLO }},
		{Name: "slo_missed", Meaning: "those it missed, joined with +", at: func(r *Row) any { return &r.SLOMissed }},
	}
}

// setInt sets the number at an *int or a *Count.
func setInt(at any, v int64) {
	switch at := at.(type) {
	case *int:
		*at = int(v)
	case *Count:
		*at = Count(v)
	}
}
