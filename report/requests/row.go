// Package requests is the per-request file of a run: a row for each request,
// with when things happened to it, how long they took and why it went where it
// went. The file is JSON lines, CSV or Parquet; all three hold the same columns
// and read back to the same bits.
//
// Read row.go and columns.go (what a row holds), collect.go (where it comes
// from), recorder.go (what only an observer of the run sees), then file.go with
// jsonl.go, csv.go and parquet.go; parts.go has them all made on all
// cores.
package requests

import "math"

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
	Unjudged Verdict = iota // nobody asked
	Met
	Missed
)

func verdictOf(met bool) Verdict {
	if met {
		return Met
	}
	return Missed
}

// Row is what is known of one request. Instants are on the logical clock, which
// starts at 0.
type Row struct {
	ID      int    // place in the order of arrivals, from 0
	Session string // name of the session; its number where nobody knows the name
	Turn    int    // index in the session, from 0
	Line    Count  // of the trace file, from 1

	Worker        Count // of the decode or only stage
	PrefillWorker Count // of the prefill stage, when there is one

	Arrival MS
	Admit   MS // first admission to an engine
	First   MS // first token
	Second  MS // second token
	Last    MS // last token, or the latest when the run was ended early

	Input  int // prompt tokens
	Output int // answer tokens asked for
	Tokens int // answer tokens gained
	Reused int // prompt tokens found in a cache, the most of any admission

	Queue   MS // arrival to admission
	Prefill MS // admission to first token; with a prefill stage, to the end of the prompt there
	TTFT    MS // arrival to first token
	TTST    MS // first to second token
	TPOT    MS // mean time per token after the first
	ITLMean MS // mean of the times between two tokens; the same number as TPOT
	ITLMax  MS // longest time between two tokens
	E2E     MS // arrival to last token

	Preemptions Count // times it lost its place in an engine

	// The decision of the router of the first stage.
	Routed       MS // when it was placed
	Overlap      Count
	PromptBlocks Count
	Cost         MS    // of the chosen worker, in blocks; not a time
	RunnerUp     Count // the cheapest other worker
	RunnerUpCost MS    // in blocks; not a time

	// The stages, when prefill and decode have workers of their own.
	PrefillEnd  MS // when the KV cache leaves the prefill worker
	DecodeStart MS // when it has reached the decode stage
	DecodeAdmit MS // first admission to the decode engine
	Transfer    MS // DecodeStart - PrefillEnd

	Parts Parts // of E2E, when a ledger was kept

	SLO       Verdict
	SLOMissed string // the objectives missed, joined with "+"
}

// Parts is where the time of a request went, in the order of ledger.Parts.
type Parts [8]MS

// Explained reports whether a ledger was kept of the request.
func (r *Row) Explained() bool { return r.Parts[0].Known() }

// newRow is a row of which nothing is known.
func newRow() (r Row) {
	for _, c := range Columns() {
		switch at := c.at(&r).(type) {
		case *Count:
			*at = None
		case *MS:
			*at = Unknown()
		}
	}
	return r
}

// Counted reports whether the request enters the statistics of the report: it was
// admitted and gained a token.
func (r *Row) Counted() bool { return r.Admit.Known() && r.Tokens > 0 }

// Finished reports whether the request gained all the tokens it asked for.
func (r *Row) Finished() bool { return r.Counted() && r.Tokens >= r.Output }
