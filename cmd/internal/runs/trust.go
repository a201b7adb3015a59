package runs

import (
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/relay"
	"github.com/replay-llm/replay/report/timeline"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// draw makes the run that replay does leave a timeline, when one is wanted. The
// file appears when the run is over.
func draw(o *options.Options, watching observers, replay func(observers) (*harness.Result, error)) (*harness.Result, error) {
	cut, err := o.Cut()
	if err != nil {
		return nil, err
	}
	if !o.Changed("timeline") {
		return replay(watching)
	}
	var result *harness.Result
	var ended error
	err = collector.WriteFile(o.Output.Drawing.Path, func(out io.Writer) error {
		t := timeline.New(out, 0, cut)
		if result, ended = replay(append(watching, t)); ended != nil {
			return ended
		}
		return t.Close()
	})
	if err != nil && ended == nil {
		err = fmt.Errorf("--timeline: %w", err)
	}
	return result, err
}

// trust watches how much of a replay lies where the profiles of its pass times
// can be trusted.
type trust struct {
	harness.NoObserver
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
func (t *trust) run(streams replay.Streams, watching observers, run func(replay.Streams) (*harness.Result, error)) (*harness.Result, error) {
	if all := append(watching, t.observers()...); len(all) > 0 {
		cli.DelayCollectionMore()
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

// Pass counts a pass.
func (t *trust) Pass(stage scheduler.Role, _ sim.WorkerID, p *scheduler.Pass) {
	if c := t.of[stage]; c != nil {
		c.Pass(p)
	}
}
