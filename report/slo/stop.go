package slo

import (
	"fmt"

	"github.com/replay-llm/replay/replay/collector"
)

// Stopper detects during a replay that an objective can no longer be met, for any times of the unfinished requests.
// Stopper supports objectives for percentiles and for single requests, over all classes. Stopper ignores objectives
// for means, gaps (itl) and single classes.
type Stopper struct {
	objectives []Objective
	target     float64
	requests   int // of the workload
	looked     int // requests that had finished when it last looked
}

// NewStopper returns a stopper for a replay with this number of requests. A share of target must meet the per-request
// objectives.
func NewStopper(objectives []Objective, target float64, requests int) *Stopper {
	return &Stopper{objectives: objectives, target: target, requests: requests}
}

// MissedError is the reason why a replay was stopped: too many requests have missed an objective.
type MissedError struct {
	Objective string  // statistic and metric; "" for all per-request objectives together
	LimitMS   float64 // of the objective
	Missed    int     // number of requests that took longer
	Allowed   int     // allowed number
	Requests  int     // number of requests in the workload
}

// Error returns one line.
func (e *MissedError) Error() string {
	what, how := "the objectives of single requests", "missed one"
	if e.Objective != "" {
		what, how = e.Objective, fmt.Sprintf("took longer than %g ms", e.LimitMS)
	}
	return fmt.Sprintf("%s cannot be met any more: %d of %d requests %s, at most %d may", what, e.Missed, e.Requests, how, e.Allowed)
}

// looks is the maximum number of times that a stopper reads all requests of a replay.
const looks = 64

// Check returns a *MissedError if an objective can no longer be met. finished is the number of finished requests.
// Check reads the requests if this number has grown enough.
func (s *Stopper) Check(c *collector.Collector, finished int) error {
	if finished-s.looked < max(1, s.requests/looks) {
		return nil
	}
	s.looked = finished
	late := make([]int, len(s.objectives))
	single := 0
	for _, r := range c.Requests() {
		if !r.Counted() || r.Tokens < r.OutputTokens || c.Window().IsSet() && !c.Window().Holds(r.Arrival) {
			continue
		}
		missed := false
		for i := range s.objectives {
			if o := &s.objectives[i]; o.isLate(r) {
				late[i]++
				missed = missed || o.Statistic == ""
			}
		}
		if missed {
			single++
		}
	}
	for i := range s.objectives {
		o := &s.objectives[i]
		if p, ok := o.percentile(); ok {
			if allowed := s.requests - 1 - int(collector.NearestRank(int64(s.requests), p)); late[i] > allowed {
				return &MissedError{Objective: o.Statistic + " " + o.Metric, LimitMS: o.LimitMS, Missed: late[i], Allowed: allowed, Requests: s.requests}
			}
		}
	}
	if single > 0 && shareOf(s.requests-single, s.requests) < s.target {
		allowed := single - 1
		for allowed > 0 && shareOf(s.requests-allowed, s.requests) < s.target {
			allowed--
		}
		return &MissedError{Missed: single, Allowed: allowed, Requests: s.requests}
	}
	return nil
}

// percentile returns the percentile of all requests that o limits; ok reports whether it limits one.
func (o *Objective) percentile() (p float64, ok bool) {
	switch o.Statistic {
	case "":
		return 0, false
	case "max":
		return 100, true
	}
	return percentileOf(o.Statistic)
}

// isLate reports whether a finished request takes longer than the limit of o.
func (o *Objective) isLate(r *collector.Record) bool {
	if o.Class != "" {
		return false
	}
	switch o.Metric {
	case "ttft":
		return float64(r.TTFT()) > o.LimitMS
	case "e2e":
		return float64(r.E2E()) > o.LimitMS
	case "tpot":
		return r.Tokens >= 2 && float64(r.TPOT()) > o.LimitMS
	case "ttst":
		return r.Tokens >= 2 && float64(r.TTST()) > o.LimitMS
	}
	return false
}
