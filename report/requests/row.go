// Package requests writes and reads the per-request file of a run. A row has the times of a request, their durations,
// and the routing decision. The file is JSON lines, CSV, Parquet or Arrow; all formats have the same columns and the
// same bits.
//
// Read row.go and columns.go (the content of a row), collect.go (its sources), stream.go (for requests that are not
// kept), recorder.go (the data that only an observer of the run gets), then file.go with text.go and parquet.go;
// parts.go distributes the work over all cores.
package requests

import (
	"math"

	"github.com/replay-llm/replay/report/parquet"
)

// MS is a time or a duration in ms of the logical clock. It may be unknown.
type MS float64

// Unknown returns an unknown or missing time.
func Unknown() MS { return MS(math.NaN()) }

// Known reports whether the time is known.
func (m MS) Known() bool { return m == m }

// Count is a number or a worker id; negative: unknown or none.
type Count int

// None is an unknown or missing count.
const None Count = -1

// Known reports whether the number is known.
func (c Count) Known() bool { return c >= 0 }

// Verdict reports whether a request met its objectives.
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

// Row holds the known data of one request. Times are on the logical clock, which starts at 0. The tags of a field
// have the name, the description and the unit of its column. In a column with the tag "repeats" many values are
// equal, so that compression pays.
type Row struct {
	ID            int    `col:"id" means:"index of the request in the order of arrivals, from 0"`
	Session       string `col:"session" means:"name of the session in the trace, or its number"`
	Turn          int    `col:"turn" means:"index of the request in its session, from 0"`
	Line          Count  `col:"line" means:"line of the request in the trace file, from 1"`
	Worker        Count  `col:"worker" means:"worker that decoded the request"`
	PrefillWorker Count  `col:"prefill_worker" means:"prefill worker of the request"`
	Input         int    `col:"input_tokens" means:"prompt tokens"`
	Output        int    `col:"output_tokens" means:"requested answer tokens; for clipped answers, the generated tokens"`
	Tokens        int    `col:"generated_tokens" means:"generated answer tokens"`
	Reused        int    `col:"reused_tokens" means:"prompt tokens found in a cache, maximum over all admissions of the request"`
	Readmitted    Count  `col:"readmitted_reused_tokens,repeats" means:"tokens of reused_tokens that were found only after a preemption, not counted as hits of the prefix cache"`

	Instants

	Queue       MS    `col:"queue_ms,repeats" means:"time from arrival to admission, in ms"`
	Prefill     MS    `col:"prefill_ms" means:"time from admission to first token, in ms; with a prefill worker, to the end of the prompt there"`
	Transfer    MS    `col:"transfer_ms" means:"time that the KV cache takes from the prefill worker to the decode worker, in ms"`
	TTFT        MS    `col:"ttft_ms" means:"time from arrival to first token, in ms"`
	TTST        MS    `col:"ttst_ms,repeats" means:"time from first to second token, in ms"`
	TPOT        MS    `col:"tpot_ms" means:"mean time per token after the first, in ms"`
	ITLMean     MS    `col:"itl_mean_ms" means:"mean time between two tokens in ms, equal to tpot_ms"`
	ITLMax      MS    `col:"itl_max_ms,repeats" means:"maximum time between two tokens, in ms"`
	E2E         MS    `col:"e2e_ms" means:"time from arrival to last token, in ms"`
	Preemptions Count `col:"preemptions" means:"number of preemptions of the request"`

	Parts Parts // of E2E, when a ledger was kept; a column each

	Routing

	SLO       Verdict `col:"slo_met" means:"whether the request met all per-request objectives"`
	SLOMissed string  `col:"slo_missed" means:"objectives that the request missed, joined with +"`

	// Class is only known if the workload has classes.
	Class string `col:"class,optional,repeats" means:"class of the request"`

	// InWindow is only known if the report is about a window.
	InWindow Verdict `col:"in_window,optional" means:"whether the request arrived in the window of the report (--window)"`
	// Round is only known if the workload is repeated.
	Round Count `col:"round,optional,repeats" means:"round of the repeated workload that the request belongs to, from 1 (--recycle)"`

	// Ending is only known in runs in which requests may end in other ways than completed.
	Ending
}

// Instants holds the times at which a request reached each stage.
type Instants struct {
	Arrival     MS `col:"arrival_ms,required,repeats" means:"time of arrival, in ms from the start of the run"`
	Routed      MS `col:"routed_ms,repeats" means:"time at which the router chose a worker, in ms from the start of the run"`
	Admit       MS `col:"admit_ms,repeats" means:"time of the first admission to an engine, in ms from the start of the run"`
	First       MS `col:"first_token_ms" means:"time of the first token, in ms from the start of the run"`
	Second      MS `col:"second_token_ms" means:"time of the second token, in ms from the start of the run"`
	Last        MS `col:"last_token_ms" means:"time of the last token, in ms from the start of the run"`
	PrefillEnd  MS `col:"prefill_end_ms" means:"time at which the KV cache leaves the prefill worker, in ms from the start of the run"`
	DecodeStart MS `col:"decode_start_ms" means:"time at which the KV cache has reached the decode worker, in ms from the start of the run"`
	DecodeAdmit MS `col:"decode_admit_ms" means:"time of the first admission to a decode engine, in ms from the start of the run"`
}

// Routing holds the routing decision of the KV router for a request.
type Routing struct {
	PromptBlocks Count `col:"prompt_blocks" means:"blocks of the prompt, as the KV router counts them"`
	Overlap      Count `col:"overlap_blocks" means:"prompt blocks that the KV router saw cached on the chosen worker"`
	Cost         MS    `col:"cost_blocks" means:"cost of the chosen worker in the KV router, in blocks"`
	RunnerUp     Count `col:"runner_up" means:"worker with the lowest cost of all other workers"`
	RunnerUpCost MS    `col:"runner_up_cost_blocks" means:"cost of the worker runner_up, in blocks"`
}

// Ending holds the outcome of a request, and the number of its attempts.
type Ending struct {
	Outcome    string `col:"outcome,optional,repeats" means:"outcome of the request: completed, rejected, shed, lost or unfinished"`
	RejectedBy string `col:"rejected_by,optional,repeats" means:"reason of a rejection, as in the keys rejected_by_ of the report: max_model_len, unfit, ..."`
	Retries    Count  `col:"retries,optional,repeats" means:"number of times that the request started again from its prompt"`
	Migrations Count  `col:"migrations,optional,repeats" means:"number of times that the request continued on another worker with its generated tokens"`
	LostTokens Count  `col:"lost_tokens,optional,repeats" means:"generated tokens that were discarded"`

	// Attempts and the fields after it are only known if clients time out or retry.
	Attempts Count `col:"attempts,optional,repeats" means:"number of times that the client sent the request"`
	Timeouts Count `col:"timeouts,optional,repeats" means:"number of attempts that the client cancelled before the first token"`
	Sent     MS    `col:"sent_ms,optional,repeats" means:"time of the last attempt of the client, in ms from the start of the run"`
}

// Parts is the ledger of a request, in the order of ledger.Parts.
type Parts [9]MS

// Explained reports whether the request has a ledger.
func (r *Row) Explained() bool { return r.Parts[0].Known() }

// newRow returns a row with unknown values.
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

// Measured reports whether the report counts the request: the request arrived in the window, or there is no window.
func (r *Row) Measured() bool { return r.InWindow != Missed }

// Counted reports whether the statistics of the report count the request: it was admitted and got a token.
func (r *Row) Counted() bool { return r.Admit.Known() && r.Tokens > 0 }

// Finished reports whether the request got all its requested tokens.
func (r *Row) Finished() bool { return r.Counted() && r.Tokens >= r.Output }
