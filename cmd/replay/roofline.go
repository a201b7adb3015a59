package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/report/relay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Keys of settings that are no engine arguments: together they name a model of
// pass times.
const (
	gpuKey   = "gpu"
	modelKey = "model"
)

// roofline is the path of the model of pass times that --gpu and --model name.
func roofline(settings []setting) (path string, ok bool) {
	gpu, model := byKey(given(settings), gpuKey), byKey(given(settings), modelKey)
	if gpu == nil || model == nil {
		return "", false
	}
	return timing.RooflinePath(gpu.String(), model.String(), 1), true
}

// checkRoofline refuses half of a name, one that nothing bears, and a profile
// beside it.
func (o *options) checkRoofline() error {
	gpu, model := o.changed("gpu"), o.changed("model")
	switch {
	case gpu && !model:
		return o.only("gpu", "with --model")
	case model && !gpu:
		return o.only("model", "with --gpu")
	}
	if name := o.firstChanged("timing-profile", "planner-profile-data"); gpu && name != "" {
		return o.only("gpu", "without --"+name)
	}
	if o.changed("timing-profile") && o.changed("planner-profile-data") {
		return o.only("timing-profile", "without --planner-profile-data, its other name")
	}
	path, ok := roofline(o.engine.settings)
	if !ok {
		return nil
	}
	if _, err := timing.Load(path); err != nil {
		return usagef("--gpu and --model: %v", err)
	}
	return nil
}

// trust watches how much of a replay lies where the profiles of its pass times
// can be trusted.
type trust struct {
	of [3]*calibrate.Coverage // by role; nil where there is no such profile
}

// newTrust reads the profiles that spec names. It is nil when none says where it
// can be trusted.
func newTrust(spec *replay.Spec, warnings io.Writer) (*trust, error) {
	t, any := &trust{}, false
	for i := range spec.Pools {
		pool := &spec.Pools[i].Engine
		path := pool.ProfilePath
		if !strings.HasSuffix(path, ".json") {
			continue
		}
		p, err := timing.LoadProfile(path)
		if err != nil {
			return nil, err
		}
		if e := p.Engine; e != nil && (e.MaxSeqs != pool.MaxSeqs || e.MaxBatchedTokens != pool.MaxBatchedTokens) {
			fmt.Fprintf(warnings, "replay: warning: %s was fitted with max_num_seqs %d and max_num_batched_tokens %d, not %d and %d\n",
				path, e.MaxSeqs, e.MaxBatchedTokens, pool.MaxSeqs, pool.MaxBatchedTokens)
		}
		if p.Trusted != nil {
			t.of[pool.Role], any = calibrate.NewCoverage(*p.Trusted, pool.BlockTokens), true
		}
	}
	if !any {
		return nil, nil
	}
	return t, nil
}

// observers are those that t needs.
func (t *trust) observers() observers {
	if t == nil {
		return nil
	}
	return observers{t}
}

// mostOutside is the share of a replay's passes, by time, that may lie outside a
// profile's range without a warning.
const mostOutside = 0.05

// warn says how much of the replay a profile knows nothing about.
func (t *trust) warn(w io.Writer) {
	if t == nil {
		return
	}
	for _, c := range t.of {
		if c == nil {
			continue
		}
		if share, name := c.Outside(); share > mostOutside {
			fmt.Fprintf(w, "replay: warning: %.0f %% of the passes, by time, are outside the range of the timing profile, first of all in %s\n", 100*share, name)
		}
	}
}

// run runs spec, watched by those given and by t, who look at it on another
// goroutine.
func (t *trust) run(streams replay.Streams, watching observers, run func(replay.Streams) (*offline.Result, error)) (*offline.Result, error) {
	if all := append(watching, t.observers()...); len(all) > 0 {
		delayCollectionMore()
		opened := streams.Opened
		streams.Opened = func(w *loadgen.Workload) {
			all.grow(len(w.Turns))
			opened(w)
		}
		later := relay.New(all)
		defer later.Close()
		streams.Observer = later
	}
	return run(streams)
}

// Arrived has nothing to count.
func (t *trust) Arrived(*sim.Request, sim.Time) {}

// Routed has nothing to count.
func (t *trust) Routed(scheduler.Role, sim.Time, *router.Placement) {}

// Handoff has nothing to count.
func (t *trust) Handoff(sim.RequestID, sim.Time, sim.Time) {}

// Pass counts a pass.
func (t *trust) Pass(stage scheduler.Role, _ sim.WorkerID, p *scheduler.Pass) {
	if c := t.of[stage]; c != nil {
		c.Pass(p)
	}
}
