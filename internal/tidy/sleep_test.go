package tidy

import (
	"go/ast"
	"strings"
	"testing"
)

// sleepers returns the test files that may call time.Sleep, with the reason.
func sleepers() map[string]string {
	return map[string]string{
		"live/cmd/replay-live/clusterend_test.go":    "a replay in real time runs until it is interrupted",
		"live/cmd/replay-live/clusterfault_test.go":  "etcd is away for a time",
		"live/cmd/replay-live/fleetrig_test.go":      "servers and lines are away for a time",
		"live/cmd/replay-live/fleetsoak_test.go":     "faults come at random times, and clients pause",
		"live/cmd/replay-live/interoprouter_test.go": "a program that does not report events receives them",
		"live/cmd/replay-live/standing_test.go":      "servers are away for longer than a lease",
		"live/conformance/kit_test.go":               "an engine is slow",
		"live/drt/away_test.go":                      "etcd is away for longer than a lease",
		"live/drt/cutoff_test.go":                    "a line is cut for half a lease",
		"live/drt/process_test.go":                   "etcd and NATS are away for a part of a lease, and for longer than one",
		"live/drt/slow_test.go":                      "a call is held up for longer than the limit",
		"live/engine/signal_test.go":                 "an engine takes time to start",
		"live/kvevents/bench_test.go":                "subscribers are killed at random times",
		"live/measure/run_test.go":                   "the clock is that of testing/synctest",
		"live/mocker/soak_test.go":                   "clients are slow, and cancel at random times",
		"live/record/bench_test.go":                  "streams settle before the measurement",
		"live/record/passing_test.go":                "the gaps between the pieces of an answer are measured",
	}
}

// Tests only sleep if they test real time. All other tests wait for a channel, for a condition (internal/poll) or for
// the clock of testing/synctest.
func TestSleepsHaveReasons(t *testing.T) {
	left := sleepers()
	allowed := sleepers()
	for _, s := range parseAll(t) {
		if !strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "Sleep" {
				return true
			}
			if x, ok := call.X.(*ast.Ident); !ok || x.Name != "time" {
				return true
			}
			if delete(left, s.path); allowed[s.path] == "" {
				t.Errorf("%s: a test sleeps: wait for a channel or with internal/poll, or add the file to sleepers with the reason", s.at(call))
			}
			return true
		})
	}
	for path := range left {
		t.Errorf("%s does not sleep: remove it from sleepers", path)
	}
}
