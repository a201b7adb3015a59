package requests

import (
	"strconv"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/sim"
)

// Place is the position of a request in its workload.
type Place struct {
	Session string
	Line    int    // line of the trace file; 0: none
	Class   string // "" if there are none
	Round   int    // round of a repeated workload, from 1; 0 for other workloads
}

// Collect returns the rows of all requests that arrived, in order of arrival. where, if not nil, returns the position
// of a turn of a session; it must be safe for concurrent calls. seen and book, if not nil, add the data of these
// observers.
func Collect(c *collector.Collector, where func(session, turn int32) Place, seen *Recorder, book *ledger.Book) []Row {
	records := c.Records()
	rows := make([]Row, len(records))
	unknown := newRow()
	window := c.Window()
	inParts(len(rows), func(from, to int) {
		for i := from; i < to; i++ {
			r, rec := &rows[i], &records[i]
			*r = unknown
			r.setFacts(sim.RequestID(i), rec)
			if window.IsSet() {
				r.InWindow = verdictOf(window.Holds(rec.Arrival))
			}
			if n, apart := c.Readmitted(sim.RequestID(i)); apart {
				r.Readmitted = Count(n)
			}
			if c.KeepsOutcomes() {
				sent, _ := c.Attempts()
				r.setFate(c.Fate(sim.RequestID(i)), c.OutcomeOf(sim.RequestID(i)), sent > 0)
			}
			r.setPlace(rec, where)
			if seen != nil {
				seen.fillRow(r)
			}
			if book != nil {
				r.setLedger(book)
			}
		}
	})
	return rows
}

// setFate sets the outcome of the request, the events before it, and the number of attempts of its client.
func (r *Row) setFate(f collector.Fate, how collector.Outcome, sent bool) {
	r.Outcome, r.RejectedBy = how.String(), f.Reason
	r.Retries, r.Migrations, r.LostTokens = Count(f.Retries), Count(f.Migrations), Count(f.LostTokens)
	if sent {
		r.Attempts, r.Timeouts, r.Sent = Count(1+f.Resent), Count(f.TimedOut), max(r.Arrival, MS(f.Sent))
	}
}

// setPlace sets the position of the request in its workload.
func (r *Row) setPlace(rec *collector.Record, where func(session, turn int32) Place) {
	if where == nil {
		r.Session = strconv.Itoa(int(rec.Session))
		return
	}
	p := where(rec.Session, rec.Turn)
	if r.Session, r.Class = p.Session, p.Class; p.Round > 0 {
		r.Round = Count(p.Round)
	}
	if p.Line > 0 {
		r.Line = Count(p.Line)
	}
}

// setLedger sets the ledger of the request.
func (r *Row) setLedger(book *ledger.Book) {
	if e, ok := book.Entry(sim.RequestID(r.ID)); ok {
		for i, ms := range e {
			r.Parts[i] = MS(ms)
		}
	}
	r.Parts[ledger.FrontEnd] = Unknown()
	if ms, ok := book.FrontEnd(sim.RequestID(r.ID)); ok {
		r.Parts[ledger.FrontEnd] = MS(ms)
	}
}

// setFacts copies the data of the collector.
func (r *Row) setFacts(id sim.RequestID, rec *collector.Record) {
	r.ID, r.Turn = int(id), int(rec.Turn)
	if rec.Worker != collector.Nowhere {
		r.Worker = Count(rec.Worker)
	}
	if rec.PrefillWorker != collector.Nowhere {
		r.PrefillWorker = Count(rec.PrefillWorker)
	}
	r.Arrival = MS(rec.Arrival)
	r.Input, r.Output, r.Tokens, r.Reused = int(rec.InputTokens), int(rec.OutputTokens), int(rec.Tokens), int(rec.Reused)
	if rec.Admitted() {
		r.Admit = MS(rec.Admit)
		r.Queue = MS((rec.Admit - rec.Arrival).Max0())
	}
	if rec.Tokens >= 1 {
		r.First, r.Last = MS(rec.First), MS(rec.Last)
	}
	if rec.Tokens >= 2 {
		r.Second = MS(rec.Second)
	}
	r.deriveSpans(rec)
}

// deriveSpans computes the time spans. Only requests that count have time spans.
func (r *Row) deriveSpans(rec *collector.Record) {
	if !rec.Counted() {
		return
	}
	r.TTFT, r.E2E = MS(rec.TTFT()), MS(rec.E2E())
	if !r.PrefillWorker.Known() {
		r.Prefill = MS((rec.First - rec.Admit).Max0())
	}
	if rec.Tokens >= 2 {
		r.TTST, r.TPOT = MS(rec.TTST()), MS(rec.TPOT())
		r.ITLMean = r.TPOT
	}
}
