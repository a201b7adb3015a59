// Package calibrate fits a model of pass times to the measurements of a real vLLM server (docs/calibration.md).
//
// A Measured run holds the requests with their instants and the server's settings, which package measured reads. The
// scheduler of vLLM 0.19 is simulated on the same arrivals many times. The parameters of timing.Parameters are chosen
// so that the simulated requests match the measured ones. A fit to one half of a run is judged on the other half.
//
// Read run.go and simulate.go for a run. The fit is in form.go, loss.go, search.go, polish.go and fit.go; slowdown.go
// and paces.go are for slow servers. The results are in errors.go, trusted.go and report.go. validate.go compares a
// replay of a run with its measured times.
package calibrate

import (
	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Measured is a run of real servers, with settings of its replays.
type Measured struct {
	measured.Run
	way   timing.Way // time between client and engine, from a profile
	whole *Measured  // the run that this is the first part of; nil: this is a whole run
	// RouterListens is true if the router uses the KV events it receives and only the run shows whether it received
	// any. Unheard is true if the router received no KV events.
	RouterListens, Unheard bool
}

// Read reads a run as measured.ReadRun does.
func Read(dir string, blocks int) (*Measured, error) { return readKnown(dir, blocks, nil) }

// readKnown reads a run as measured.ReadRun does. Settings that the run lacks come from known, by the keys of
// meta.json. The key device_name is the GPU.
func readKnown(dir string, blocks int, known map[string]any) (*Measured, error) {
	return wrapRun(measured.ReadRun(dir, blocks, known))
}

// ReadTimes reads the requests of a run as ReadTimesOf does.
func ReadTimes(dir string) (*Measured, error) { return ReadTimesOf(dir, 0) }

// ReadTimesOf reads the requests of a run as measured.ReadRequests does. A value of inFlight above 0 is the number of
// concurrent requests of a closed loop.
func ReadTimesOf(dir string, inFlight int) (*Measured, error) {
	return wrapRun(measured.ReadRequests(dir, inFlight))
}

// wrapRun returns a run that was read as a Measured.
func wrapRun(r *measured.Run, err error) (*Measured, error) {
	if err != nil {
		return nil, err
	}
	return &Measured{Run: *r}, nil
}
