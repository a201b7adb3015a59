package harness

import (
	"cmp"
	"errors"
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// rejections is the rejected requests.
type rejections struct {
	list    []Rejection
	reasons []Reason
}

// Reason is the number of requests rejected for one reason.
type Reason struct {
	Key   string // as in Rejection.Reason
	Count int
}

// keptRejections is the maximum number of rejections that a streamed replay keeps.
const keptRejections = 1000

// OutOfMemory is the reason for a request that its engine has aborted.
const OutOfMemory = "out_of_memory"

// NewAbort returns the rejection of a request that its engine has aborted.
func (r *Run) NewAbort(x *scheduler.Abort) *Rejection {
	return &Rejection{
		Request: x.Request, Place: r.Place(r.Requests.Get(int(x.Request))), Reason: OutOfMemory, Gained: x.Tokens, Err: errors.New(x.Reason),
	}
}

// RejectArrival records the rejection of a request at its arrival, and reports to the observer that it has left.
func (r *Run) RejectArrival(x *Rejection, at sim.Time) {
	if r.Observer != nil {
		r.Observer.Left(&Departure{Request: x.Request, Stage: r.Stages[0].Role, Worker: collector.Nowhere, At: at, Outcome: collector.Rejected})
	}
	r.Reject(x)
}

// Reject records the rejection of a request.
func (r *Run) Reject(x *Rejection) {
	all := &r.rejections
	if !r.Streamed() || len(all.list) < keptRejections {
		all.list = append(all.list, *x)
	}
	i, known := slices.BinarySearchFunc(all.reasons, x.Reason, func(have Reason, key string) int { return cmp.Compare(have.Key, key) })
	if !known {
		all.reasons = slices.Insert(all.reasons, i, Reason{Key: x.Reason})
	}
	all.reasons[i].Count++
	r.Collector.Reject(x.Request, x.Reason, x.Gained)
}

// MayReject reports whether requests may be rejected at their arrival.
func (r *Run) MayReject() bool { return r.lengths.Limited() || r.Use.FitUncached }

// AddRejected adds the rejected requests to a result and returns the fields for its report. Without rejected
// requests, AddRejected returns fields only if always is set.
func (r *Run) AddRejected(to *Result, always bool) []collector.Field {
	to.Rejected, to.Reasons = r.rejections.list, r.rejections.reasons
	n := to.CountRejected()
	if n == 0 && !always {
		return nil
	}
	fields := []collector.Field{collector.Of("rejected_requests", n)}
	for _, x := range to.Reasons {
		fields = append(fields, collector.Of("rejected_by_"+x.Key, x.Count))
	}
	return fields
}

// CountRejected returns the number of rejected requests.
func (r *Result) CountRejected() (n int) {
	for _, x := range r.Reasons {
		n += x.Count
	}
	return n
}
