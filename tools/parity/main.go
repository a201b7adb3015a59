// Command parity replays random workloads with the published reference and with this program. The command compares
// the reports of the reference and of this program.
//
//	go run ./tools/parity -n 500
//	go run ./tools/parity -seed 1234 -n 1 -v     one run, as a failure prints it
//	go run ./tools/parity -only kv,tight -skip sglang
//	go run ./tools/parity -alone -only hopeless    what can never end does end here
//
// Package draw generates the workloads. Read main.go, then peer.go (runs of the reference), judge.go (the verdicts)
// and outcome.go (runs of this program, and outcomes).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/tools/draw"
	"github.com/replay-llm/replay/tools/peer"
	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	n        int
	seed     uint64
	only     string
	skip     string
	jobs     int
	verbose  bool
	peer     string
	version  string
	binary   string
	patience time.Duration
	keep     string
	alone    bool
}

func (s *settings) bindFlags(fs *flag.FlagSet) {
	fs.IntVar(&s.n, "n", 200, "number of runs")
	fs.Uint64Var(&s.seed, "seed", 1, "seed of the first run; later runs have the next seeds")
	fs.StringVar(&s.only, "only", "", "run only cases with all of these tags, by comma: "+strings.Join(draw.AllTags(), " "))
	fs.StringVar(&s.skip, "skip", "", "leave out cases with any of these tags")
	fs.IntVar(&s.jobs, "jobs", min(2, runtime.NumCPU()), "runs at once")
	fs.BoolVar(&s.verbose, "v", false, "print every run")
	fs.StringVar(&s.peer, "peer", peer.Script, "script that installs and runs the reference")
	fs.StringVar(&s.version, "version", "1.2.1", "release of the reference")
	fs.StringVar(&s.binary, "binary", "", "replay binary; empty: build it")
	fs.DurationVar(&s.patience, "patience", 4*time.Second, "time after which a run of the reference counts as endless")
	fs.BoolVar(&s.alone, "alone", false, "leave the reference out: every run must end in a report or an error, with and without --compat")
	fs.StringVar(&s.keep, "keep", "", "directory for the files of runs that differ; empty: a temporary one")
}

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("parity", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var s settings
	s.bindFlags(fs)
	if err := fs.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := s.installPeer(ctx)
	switch {
	case errors.Is(err, peer.ErrMissing):
		fmt.Fprintf(stdout, "parity: skipped: %v\n", err)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "parity: %v\n", err)
		return 1
	}
	totals, err := s.runAll(ctx, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "parity: %v\n", err)
		return 1
	}
	fmt.Fprintf(stdout, "runs %d, compared %d, skipped %d, differing %d\n",
		totals.runs, totals.compared, totals.skipped, totals.differing)
	if totals.differing > 0 || totals.runs < s.n {
		return 1
	}
	return 0
}

// installPeer installs the reference if it is required and not installed yet.
func (s *settings) installPeer(ctx context.Context) error {
	if s.alone || peer.IsInstalled(s.version) {
		return nil
	}
	return peer.Install(ctx, s.peer, s.version)
}

// totals counts runs by verdict.
type totals struct{ runs, compared, skipped, differing int }

// runAll runs the cases and prints the important results, in order of their seeds.
func (s *settings) runAll(ctx context.Context, stdout io.Writer) (totals, error) {
	dir, err := os.MkdirTemp("", "parity")
	if err != nil {
		return totals{}, err
	}
	defer os.RemoveAll(dir)
	if s.keep == "" {
		s.keep = os.TempDir()
	}
	binary, err := stopwatch.Find(ctx, s.binary, dir)
	if err != nil {
		return totals{}, err
	}
	cases := s.sendCases(ctx)
	results := make(chan verdict)
	var wg sync.WaitGroup
	for range max(s.jobs, 1) {
		wg.Go(func() {
			j := judge{binary: binary, peer: &process{python: peer.Python(s.version), patience: s.patience}, alone: s.alone, dir: dir, keep: s.keep}
			defer j.peer.stop()
			for c := range cases {
				results <- j.decide(ctx, c)
			}
		})
	}
	go func() { wg.Wait(); close(results) }()
	return s.printVerdicts(stdout, results), ctx.Err()
}

// sendCases sends the cases that match the flags.
func (s *settings) sendCases(ctx context.Context) <-chan *draw.Workload {
	out := make(chan *draw.Workload)
	go func() {
		defer close(out)
		seed := s.seed
		for sent := 0; sent < s.n; seed++ {
			c := draw.New(seed)
			if !c.Tags.Match(s.only, s.skip) {
				if seed-s.seed > uint64(1000*(s.n+1)) {
					return // no workload has these tags
				}
				continue
			}
			select {
			case out <- c:
				sent++
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (s *settings) printVerdicts(stdout io.Writer, results <-chan verdict) totals {
	var t totals
	for v := range results {
		t.runs++
		switch v.kind {
		case equal:
			t.compared++
		case skipped:
			t.skipped++
		case differing:
			t.compared++
			t.differing++
		}
		if v.kind == differing || s.verbose {
			fmt.Fprintf(stdout, "%s seed %d [%s] %s\n", v.kind, v.seed, v.tags, v.why)
		}
		if v.kind == differing {
			fmt.Fprintf(stdout, "  reproduce: go run ./tools/parity -n 1 -v -seed %d\n", v.seed)
		}
	}
	return t
}
