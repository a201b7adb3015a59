// Package harness holds what a replay is made of on either clock: the pools of
// workers, how requests go through them, who looks on, and what is left at the
// end. A driver moves time: offline on a logical clock, online in real time.
//
// Read config.go, run.go, pool.go, then observer.go and result.go.
package harness

import (
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engines"
)

// Config is what a replay on any clock depends on.
type Config struct {
	engines.Topology
	Workload  *loadgen.Workload
	Admission loadgen.Admission

	// Progress, when not nil, is called now and then with the number of requests
	// that have finished.
	Progress func(finished int)
	// Observer, when not nil, is shown everything that happens, from one
	// goroutine.
	Observer Observer
}
