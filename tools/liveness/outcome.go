package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
)

// kind is the kind of a run's end.
type kind int

const (
	reported kind = iota // the run ended with a report
	refused              // the run ended with a known error
	wrong                // the run ended with an unknown error, or with a report that omits requests
	panicked
	late    // ended only after its time limit
	endless // did not end even then
)

func (k kind) String() string {
	return [...]string{"report", "error", "WRONG", "PANIC", "SLOW", "ENDLESS"}[k]
}

// ending is the end of one run.
type ending struct {
	trial *trial
	kind  kind
	name  string // name of the error
	why   string
	took  time.Duration
}

func (e *ending) failed() bool { return e.kind > refused }

func (e *ending) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v seed %d [%s] %v: %s\n", e.kind, e.trial.Seed, e.trial.Tags.String(), e.took.Round(time.Microsecond), e.why)
	if e.failed() {
		fmt.Fprintf(&b, "  reproduce: go run -tags invariants ./tools/liveness -n 1 -v -seed %d\n%s", e.trial.Seed, e.trial)
	}
	return b.String()
}

// judgeResult sets the verdict from a result or an error.
func (e *ending) judgeResult(w *loadgen.Workload, r *harness.Result, err error) {
	if err != nil {
		e.name, e.why = errorName(err), err.Error()
		e.kind = refused
		if e.name == "" {
			e.kind = wrong
		}
		return
	}
	finished, want := finishedBy(r), len(w.Turns)
	var by [collector.Lost + 1]int
	if s := &e.trial.spec; s.Faults != nil || s.Topology.Admission != nil {
		by, _ = r.Collector.Outcomes()
	}
	given := by[collector.Lost] + by[collector.Shed]
	aborted := countAborted(r)
	e.why = fmt.Sprintf("%d of %d requests, %d rejected, %d aborted, %d lost or shed, partial %v, %.6g ms",
		finished, want, len(r.Rejected)-aborted, aborted, given, r.Partial, r.Report.DurationMS)
	switch rejected := len(r.Rejected) + given; {
	case e.trial.rejectsNone() && len(r.Rejected) > aborted || aborted > 0 && !e.trial.Tags.Has("sglang") && !e.trial.Tags.Has("trtllm"):
		e.kind, e.why = wrong, e.why+": nothing was to be rejected"
	case r.Partial && e.trial.spec.Until == 0:
		e.kind, e.why = wrong, e.why+": partial without an end"
	case !r.Partial && finished+rejected != want || finished+rejected > want:
		e.kind, e.why = wrong, e.why+": requests are missing"
	}
}

// rejectsNone reports whether engines must accept all requests. TensorRT-LLM rejects requests that can never fit.
func (x *trial) rejectsNone() bool { return !x.spec.Reject && !x.Tags.Has("trtllm") }

// countAborted returns the number of requests that engines have aborted.
func countAborted(r *harness.Result) (n int) {
	for i := range r.Rejected {
		if r.Rejected[i].Reason == harness.OutOfMemory {
			n++
		}
	}
	return n
}

// finishedBy returns the number of requests that received all their tokens.
func finishedBy(r *harness.Result) int {
	n := 0
	for _, record := range r.Collector.Requests() {
		if record.Admitted() && record.Tokens == record.OutputTokens {
			n++
		}
	}
	return n
}

// errorName returns the kind of an error; "" for an error that should not occur.
func errorName(err error) string {
	switch {
	case errors.As(err, new(*engines.OversizeError)):
		return "oversize"
	case errors.As(err, new(*harness.StalledError)):
		return "stalled"
	case errors.As(err, new(*loadgen.SyntaxError)):
		return "workload"
	}
	return ""
}
