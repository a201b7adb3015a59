// Command parityplanner compares scaler: dynamo-planner with the planner of NVIDIA Dynamo. Scaler and planner get the
// same metrics at each tick of replays. The command compares the wanted numbers of workers.
//
//	make parity-planner
//	go run ./tools/parityplanner -python .venv/bin/python -only chat-hour -v
//	go run ./tools/parityplanner -python .venv/bin/python -record tools/parityplanner/testdata    cases for the tests
//
// The planner runs in tools/dynamoplanner/planner.py, which lists its requirements. Without these requirements, the
// tool prints one line and ends with exit code 0. Read main.go, then runs.go (the replays) and case.go (recorded
// cases).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/peer"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
)

// adapter is the program that runs the planner.
const adapter = "tools/dynamoplanner/planner.py"

// settings are the flags.
type settings struct {
	python, only, record string
	verbose              bool
}

func main() {
	var s settings
	flag.StringVar(&s.python, "python", "python3", "`interpreter` that has Dynamo's packages")
	flag.StringVar(&s.only, "only", "", "compare only runs with this `text` in their names")
	flag.StringVar(&s.record, "record", "", "`folder` for the first ticks of each run")
	flag.BoolVar(&s.verbose, "v", false, "print every act")
	flag.Parse()
	if err := s.tryPlanner(); err != nil {
		fmt.Fprintln(os.Stderr, "parityplanner: skipped:", err)
		return
	}
	differ, err := s.compareAll(context.Background(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "parityplanner:", err)
	}
	if err != nil || differ > 0 {
		os.Exit(1)
	}
}

// tryPlanner returns why the planner cannot run; nil: it can.
func (s *settings) tryPlanner() error {
	out, err := exec.Command(s.python, filepath.Join(optional.Root(), adapter), "--help").CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("%s does not run the planner of Dynamo: %w: %s", s.python, err, lines[len(lines)-1])
}

// compareAll compares all runs, and returns the number of runs with unexplained differences.
func (s *settings) compareAll(ctx context.Context, out io.Writer) (differ int, err error) {
	equal, drawn, ticks, acts := 0, 0, 0, 0
	for _, r := range listRuns() {
		if !strings.Contains(r.name(), s.only) {
			continue
		}
		path, err := r.findTrace()
		if err != nil {
			fmt.Fprintf(out, "%s: skipped: %v\n", r.name(), err)
			continue
		}
		w, err := s.compare(ctx, &r, path)
		if err != nil {
			return differ, fmt.Errorf("%s: %w", r.name(), err)
		}
		ticks += len(w.ticks)
		acts += w.acts
		fmt.Fprintf(out, "%-36s %5d ticks %4d acts %4d differ, %d of them where the planner itself estimates another time in another process\n", r.name(), len(w.ticks), w.acts, len(w.differences), w.drawn)
		switch {
		case len(w.differences) == 0:
			equal++
		case len(w.differences) == w.drawn:
			drawn++
		default:
			differ++
		}
		for _, d := range w.differences {
			if !d.drawn || s.verbose {
				fmt.Fprintln(out, " ", d.text)
			}
		}
		if s.record != "" && len(w.differences) == 0 {
			if err := w.record(s.record, &r); err != nil {
				return differ, err
			}
		}
	}
	fmt.Fprintf(out, "%d runs equal, %d differ only where the planner differs from itself, %d differ (%d ticks, %d acts)\n", equal, drawn, differ, ticks, acts)
	return differ, nil
}

// asked is a running planner.
type asked struct {
	autoscale.Scaler
	process *peer.Peer
	dir     string
	stderr  strings.Builder
	why     string // reason for its latest decision about both pools
}

// launch starts the planner's process.
func (s *settings) launch(ctx context.Context, config *autoscale.Config) (a *asked, err error) {
	text, err := json.Marshal(nameKeys(config.Planner))
	if err != nil {
		return nil, err
	}
	a = new(asked)
	if a.dir, err = os.MkdirTemp("", "parityplanner"); err != nil {
		return nil, err
	}
	file := filepath.Join(a.dir, "planner.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	command := fmt.Sprintf("%s %s --config %s", s.python, filepath.Join(optional.Root(), adapter), file)
	a.process, err = peer.Start(ctx, peer.Options{Name: "planner", Command: command, Timeout: 2 * time.Minute, Stderr: &a.stderr})
	return a, err
}

// start starts a planner for one pool.
func (s *settings) start(ctx context.Context, config *autoscale.Config, workers autoscale.Workers) (a *asked, err error) {
	if a, err = s.launch(ctx, config); err != nil {
		return nil, err
	}
	loose := *config
	loose.Min, loose.Max = 0, autoscale.MostWorkers // no limits, so that the planner's decision is visible
	if a.Scaler, err = autoscale.NewProcess(a.process, &loose, workers, 0); err != nil {
		return nil, errors.Join(err, a.close(), errors.New(a.stderr.String()))
	}
	return a, nil
}

// close stops the planner, and returns why it could not decide any more.
func (a *asked) close() error {
	var err error
	if x, ok := a.Scaler.(autoscale.Fallible); ok {
		err = x.Err()
	}
	return errors.Join(err, a.process.Close(), os.RemoveAll(a.dir))
}

// compare replays a run and asks the planner at each tick. The decision of the scaler applies.
func (s *settings) compare(ctx context.Context, r *run, trace string) (*witness, error) {
	if r.joint() {
		return s.comparePair(ctx, r, trace)
	}
	spec := r.spec(trace)
	workers, err := spec.Pools[r.pool].Seen()
	if err != nil {
		return nil, err
	}
	config := spec.AutoscalerOf(r.pool)
	own, err := autoscale.NewDynamo(config, workers)
	if err != nil {
		return nil, err
	}
	theirs, err := s.start(ctx, config, workers)
	if err != nil {
		return nil, err
	}
	w := &witness{workers: workers, own: own, theirs: theirs}
	if r.disagged {
		w.pool = spec.Pools[r.pool].Role.String()
	}
	_, err = spec.Run(ctx, replay.Streams{Scaler: w})
	if err = errors.Join(err, theirs.close()); err != nil || len(w.differences) == 0 {
		return w, err
	}
	for range again {
		if err := s.runAgain(ctx, config, w); err != nil {
			return w, err
		}
	}
	return w, nil
}

// again is the number of additional planners that are asked after a difference.
const again = 8

// runAgain passes the same ticks to a new planner. runAgain marks the differences at which this planner wants or
// estimates something different.
func (s *settings) runAgain(ctx context.Context, config *autoscale.Config, w *witness) error {
	theirs, err := s.start(ctx, config, w.workers)
	if err != nil {
		return err
	}
	err = w.compareAgain(func(t *tick) ([2]int, string, error) {
		n := theirs.Want(t.signals())
		return [2]int{n}, theirs.Scaler.(autoscale.Explainer).Why(), nil
	})
	return errors.Join(err, theirs.close())
}
