// Package requests is the per-request file of a run: a row for each request,
// with when things happened to it, how long they took and why it went where it
// went. The file is JSON lines, CSV or Parquet; all three hold the same columns
// and read back to the same bits.
//
// Read row.go and columns.go (what a row holds), collect.go (where it comes
// from), stream.go (from requests that are not kept), recorder.go (what only an observer of the run sees), then file.go with
// text.go and parquet.go; parts.go has them all made on all
// cores.
package requests

import (
	"math"

	"github.com/replay-llm/replay/report/parquet"
)

// MS is an instant or a span in ms of the logical clock; it may be unknown.
type MS float64

// Unknown is a time that is not known, or that there is none of.
func Unknown() MS { return MS(math.NaN()) }

// Known reports whether there is a time.
func (m MS) Known() bool { return m == m }

// Count is a number or a worker's id; negative: unknown, or none.
type Count int

// None is a count that is not known, or that there is none of.
const None Count = -1

// Known reports whether there is a number.
func (c Count) Known() bool { return c >= 0 }

// Verdict reports whether a request met the objectives it was held to.
type Verdict int8

const (
	Unjudged Verdict = iota // without objectives
	Met
	Missed
)

func verdictOf(met bool) Verdict {
	if met {
		return Met
	}
	return Missed
}

// Row has the known facts of one request. Instants are on the logical clock, which starts at 0. A tag names the column of
// a field and has its meaning, with the unit. In a column that repeats, many values in a row are the same, so that
// packing them pays.
type Row struct {
	ID            int    `col:"id" means:"place in the order of arrivals, from 0"`
	Session       string `col:"session" means:"the session as the trace names it, or its number"`
	Turn          int    `col:"turn" means:"index in the session, from 0"`
	Line          Count  `col:"line" means:"line of the trace file, from 1"`
	Worker        Count  `col:"worker" means:"worker that decoded it"`
	PrefillWorker Count  `col:"prefill_worker" means:"worker of the prefill stage"`
	Input         int    `col:"input_tokens" means:"prompt tokens"`
	Output        int    `col:"output_tokens" means:"answer tokens asked for; of an answer that was clipped, those gained"`
	Tokens        int    `col:"generated_tokens" means:"answer tokens emitted"`
	Reused        int    `col:"reused_tokens" means:"prompt tokens found in a cache, the most of any admission"`
	Readmitted    Count  `col:"readmitted_reused_tokens,repeats" means:"of these, tokens found after a preemption alone, which are no hits of the prefix cache"`

	Instants

	Queue       MS    `col:"queue_ms,repeats" means:"arrival to admission"`
	Prefill     MS    `col:"prefill_ms" means:"admission to first token; with a prefill stage, to the end of the prompt there"`
	Transfer    MS    `col:"transfer_ms" means:"time the KV cache takes from the prefill worker to the decode stage"`
	TTFT        MS    `col:"ttft_ms" means:"arrival to first token"`
	TTST        MS    `col:"ttst_ms,repeats" means:"first to second token"`
	TPOT        MS    `col:"tpot_ms" means:"mean time per token after the first"`
	ITLMean     MS    `col:"itl_mean_ms" means:"mean time between two tokens, the same number as tpot_ms"`
	ITLMax      MS    `col:"itl_max_ms,repeats" means:"longest time between two tokens"`
	E2E         MS    `col:"e2e_ms" means:"arrival to last token"`
	Preemptions Count `col:"preemptions" means:"times it lost its place in an engine"`

	Parts Parts // of E2E, when a ledger was kept; a column each

	Routing

	SLO       Verdict `col:"slo_met" means:"whether it met the objectives"`
	SLOMissed string  `col:"slo_missed" means:"those it missed, joined with +"`

	// Only where there are classes.
	Class string `col:"class,optional,repeats" means:"its class"`

	// Only where the report is of a window.
	InWindow Verdict `col:"in_window,optional" means:"whether it arrived in the window that the report is about"`
	// Only where the workload is recycled.
	Round Count `col:"round,optional,repeats" means:"the round of the workload that it is of, from 1"`

	// Only of runs in which requests may end in other ways.
	Ending
}

// Instants are when a request came to each stage.
type Instants struct {
	Arrival     MS `col:"arrival_ms,required,repeats" means:"instant of arrival"`
	Routed      MS `col:"routed_ms,repeats" means:"instant at which the router placed it"`
	Admit       MS `col:"admit_ms,repeats" means:"instant of the first admission to an engine"`
	First       MS `col:"first_token_ms" means:"instant of the first token"`
	Second      MS `col:"second_token_ms" means:"instant of the second token"`
	Last        MS `col:"last_token_ms" means:"instant of the last token"`
	PrefillEnd  MS `col:"prefill_end_ms" means:"instant at which the KV cache leaves the prefill worker"`
	DecodeStart MS `col:"decode_start_ms" means:"instant at which the KV cache has reached the decode stage"`
	DecodeAdmit MS `col:"decode_admit_ms" means:"instant of the first admission to a decode engine"`
}

// Routing is what the KV router saw of a request.
type Routing struct {
	PromptBlocks Count `col:"prompt_blocks" means:"blocks of the prompt, as the KV router counts"`
	Overlap      Count `col:"overlap_blocks" means:"blocks of it the KV router saw cached on the chosen worker"`
	Cost         MS    `col:"cost_blocks" means:"cost of the chosen worker"`
	RunnerUp     Count `col:"runner_up" means:"the cheapest other worker"`
	RunnerUpCost MS    `col:"runner_up_cost_blocks" means:"its cost"`
}

// Ending is how a request ended, and how often it was sent.
type Ending struct {
	Outcome    string `col:"outcome,optional,repeats" means:"how it ended: completed, rejected, shed, lost or unfinished"`
	RejectedBy string `col:"rejected_by,optional,repeats" means:"why it was rejected, as in the keys of the report: max_model_len, unfit and so on"`
	Retries    Count  `col:"retries,optional,repeats" means:"times it began again from its prompt"`
	Migrations Count  `col:"migrations,optional,repeats" means:"times it continued on another worker with the tokens that it had"`
	LostTokens Count  `col:"lost_tokens,optional,repeats" means:"tokens it had gained that were thrown away"`

	// Only if clients hang up or retry.
	Attempts Count `col:"attempts,optional,repeats" means:"times its client sent it"`
	Timeouts Count `col:"timeouts,optional,repeats" means:"of these, times its client hung up before the first token"`
	Sent     MS    `col:"sent_ms,optional,repeats" means:"instant at which its client sent it last"`
}

// Parts is where the time of a request went, in the order of ledger.Parts.
type Parts [9]MS

// Explained reports whether a ledger was kept of the request.
func (r *Row) Explained() bool { return r.Parts[0].Known() }

// newRow is a row of which nothing is known.
func newRow() (r Row) {
	for _, c := range Columns() {
		switch at := c.at(&r); {
		case c.Kind == parquet.Double:
			at.SetFloat(math.NaN())
		case c.Kind == parquet.Int64 && !c.Required:
			at.SetInt(int64(None))
		}
	}
	return r
}

// Measured reports whether the report is about the request, because it arrived in its window.
func (r *Row) Measured() bool { return r.InWindow != Missed }

// Counted reports whether the request enters the statistics of the report: it was
// admitted and gained a token.
func (r *Row) Counted() bool { return r.Admit.Known() && r.Tokens > 0 }

// Finished reports whether the request gained all the tokens it asked for.
func (r *Row) Finished() bool { return r.Counted() && r.Tokens >= r.Output }
