package drive

import (
	"fmt"
	"io"
	"sync"

	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// lateMS is how many ms after its due time a request may be sent and still count as on time.
const lateMS = 1

// Kept measures how well the client followed the workload.
type Kept struct {
	mu        sync.Mutex
	late      []float64 // ms, by request
	over      int       // number of requests that were later than lateMS
	ended     map[string]int
	lengths   int // prompts with another length on the server than in the trace
	answers   int // answers with another length than requested
	counted   int // answers with tokens counted as pieces of the stream
	firstFail string
}

// NewKept returns an empty Kept.
func NewKept() *Kept { return &Kept{ended: map[string]int{}} }

func (k *Kept) addRow(r *measure.Row, q *sim.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	late := max(0, 1000*(r.Arrival-*r.Due))
	k.late = append(k.late, late)
	if late > lateMS {
		k.over++
	}
	k.ended[r.Status]++
	if r.Status == measure.StatusError && k.firstFail == "" {
		k.firstFail = fmt.Sprintf("request %s: %s", r.ID, r.Error)
	}
	if r.Status != measure.StatusOK {
		return
	}
	if r.Input != q.InputTokens {
		k.lengths++
	}
	if r.Output != q.OutputTokens {
		k.answers++
	}
	if r.Counted {
		k.counted++
	}
}

// Failed returns the number of failed requests, and the first error.
func (k *Kept) Failed() (n int, first string) { return k.ended[measure.StatusError], k.firstFail }

// Warning returns a warning if more than 1 % of the requests were late, otherwise "".
func (k *Kept) Warning() string {
	if 100*k.over <= len(k.late) { // 1 % of late requests does not change a run
		return ""
	}
	d := collector.Describe(k.late)
	return fmt.Sprintf("this client could not keep up: %d of %d requests were sent more than %d ms late, by %.1f ms at p99 and %.1f ms at most; the run is about arrivals as they were, not about those of the trace",
		k.over, len(k.late), lateMS, d.P99, d.Max)
}

// Fields returns the counts as fields for the report's JSON.
func (k *Kept) Fields() []collector.Field {
	d := collector.Describe(k.late)
	return []collector.Field{
		collector.Of("sent_late_p50_ms", d.Median), collector.Of("sent_late_p99_ms", d.P99), collector.Of("sent_late_max_ms", d.Max),
		collector.Of("sent_late_requests", k.over), collector.Of("failed_requests", k.ended[measure.StatusError]),
		collector.Of("cancelled_requests", k.ended[measure.StatusCancelled]),
	}
}

// WriteText writes the counts that are not in the report.
func (k *Kept) WriteText(w io.Writer) {
	d := collector.Describe(k.late)
	fmt.Fprintf(w, "Requests: %d ok, %d with an error, %d cancelled\n", k.ended[measure.StatusOK], k.ended[measure.StatusError], k.ended[measure.StatusCancelled])
	fmt.Fprintf(w, "Sent late by (ms): %.3f p50, %.3f p99, %.3f max; %d of %d more than %d ms late\n", d.Median, d.P99, d.Max, k.over, len(k.late), lateMS)
	if k.lengths > 0 {
		fmt.Fprintf(w, "Prompts: %d of another length than in the trace, by the server's count\n", k.lengths)
	}
	if k.answers > 0 {
		fmt.Fprintf(w, "Answers: %d of another length than was asked for\n", k.answers)
	}
	if k.counted > 0 {
		fmt.Fprintf(w, "Answers: the server counted no tokens of %d; these are pieces of its stream\n", k.counted)
	}
}
