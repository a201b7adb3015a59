// Command liveness runs random replays on engines with very few blocks and a very small token budget. Each replay
// must end within a time limit. Each replay must end with a report of every request, or with an error that names the
// cause.
//
//	go run -tags invariants ./tools/liveness -n 2000
//	go run -tags invariants ./tools/liveness -n 1 -seed 77 -v    one run, as a failure prints it
//	go run -tags invariants ./tools/liveness -only sglang -skip compat    SGLang's own rules
//
// Package draw generates the workloads. Read main.go, then draw.go (the runs), watch.go (how they run) and outcome.go
// (the verdicts).
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/nearest"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	n        int
	seed     uint64
	jobs     int
	patience time.Duration
	verbose  bool
	only     string
	skip     string
}

func (s *settings) bindFlags(fs *flag.FlagSet) {
	fs.IntVar(&s.n, "n", 2000, "number of runs")
	fs.Uint64Var(&s.seed, "seed", 1, "seed of the first run; later runs have the next seeds")
	fs.IntVar(&s.jobs, "jobs", runtime.NumCPU(), "runs at once")
	fs.DurationVar(&s.patience, "patience", 2*time.Second, "time a run may take")
	fs.StringVar(&s.only, "only", "", "only runs with all of these `tags`, by comma, as sglang")
	fs.StringVar(&s.skip, "skip", "", "no runs with any of these `tags`, as compat")
	fs.BoolVar(&s.verbose, "v", false, "print every run")
}

// checkTags returns an error for an unknown tag, since no run would have it.
func (s *settings) checkTags() error {
	for _, list := range []string{s.only, s.skip} {
		for tag := range strings.SplitSeq(list, ",") {
			if tag != "" && !slices.Contains(allTags(), tag) {
				return fmt.Errorf("no run has the tag %q%s", tag, nearest.Ask(tag, allTags()))
			}
		}
	}
	return nil
}

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("liveness", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var s settings
	s.bindFlags(fs)
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if err := s.checkTags(); err != nil {
		fmt.Fprintln(stderr, "liveness:", err)
		return 2
	}
	t := totals{make(map[kind]int), make(map[string]int)}
	for e := range s.runAll() {
		t.addEnding(e)
		if e.failed() || s.verbose {
			fmt.Fprint(stdout, e.describe())
		}
	}
	fmt.Fprintln(stdout, t.String())
	if t.ended[reported]+t.ended[refused] < s.n {
		return 1
	}
	return 0
}

// hopeless is the number of endless runs after which no further runs are started. Each endless run still uses CPU
// time.
const hopeless = 4

// runAll starts the runs and returns a channel of their results.
func (s *settings) runAll() <-chan ending {
	seeds, endings := make(chan uint64), make(chan ending)
	stop := make(chan struct{})
	go func() {
		defer close(seeds)
		for i, left := uint64(0), s.n; left > 0; i++ {
			if x := drawTrial(s.seed + i); !x.Tags.Match(s.only, s.skip) {
				continue
			}
			left--
			select {
			case seeds <- s.seed + i:
			case <-stop:
				return
			}
		}
	}()
	var wg sync.WaitGroup
	var stuck atomic.Int32
	for range max(s.jobs, 1) {
		wg.Go(func() {
			for seed := range seeds {
				e := watchTrial(drawTrial(seed), s.patience)
				if e.kind == endless && stuck.Add(1) == hopeless {
					close(stop)
				}
				endings <- e
			}
		})
	}
	go func() { wg.Wait(); close(endings) }()
	return endings
}

// totals counts runs by their result.
type totals struct {
	ended  map[kind]int
	errors map[string]int // number of errors by name
}

func (t *totals) addEnding(e ending) {
	t.ended[e.kind]++
	if e.kind == refused {
		t.errors[e.name]++
	}
}

func (t *totals) String() string {
	sum, names := 0, make([]string, 0, len(t.errors))
	for _, name := range slices.Sorted(maps.Keys(t.errors)) {
		names = append(names, fmt.Sprintf("%s %d", name, t.errors[name]))
	}
	for _, n := range t.ended {
		sum += n
	}
	return fmt.Sprintf("runs %d, reports %d, errors %d (%s), slow %d, panics %d, other %d", sum, t.ended[reported],
		t.ended[refused], strings.Join(names, ", "), t.ended[late]+t.ended[endless], t.ended[panicked], t.ended[wrong])
}
