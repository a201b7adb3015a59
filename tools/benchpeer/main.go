// Command benchpeer measures how much faster this program is than the published
// reference, and whether its time and memory grow with the work alone.
//
//	go run ./tools/benchpeer                    the whole table; takes ten minutes
//	go run ./tools/benchpeer -only 'KV router'  some rows, by title or name
//	go run ./tools/benchpeer -quick             one pair of runs, smaller workloads
//	go run ./tools/benchpeer -scale             a million requests, 512 workers
//	go run ./tools/benchpeer tile -n 1000000 SHORT.jsonl LONG.jsonl
//
// Read main.go, then program.go (one run), pairs.go (one row), verdict.go and
// table.go (what is printed), scale.go, traces.go. Package row has the cases,
// package tile makes long traces.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	only    string
	pairs   int
	quick   bool
	scale   bool
	timeout time.Duration
	peer    string
	version string
	binary  string
}

func (s *settings) bindFlags(fs *flag.FlagSet) {
	fs.StringVar(&s.only, "only", "", "only rows whose title or name this regular expression matches")
	fs.IntVar(&s.pairs, "pairs", 5, "pairs of runs per row, in turn; with -scale: rounds")
	fs.BoolVar(&s.quick, "quick", false, "one pair, and a sixteenth of the requests where the row says how many: to try the tools")
	fs.BoolVar(&s.scale, "scale", false, "measure how time and memory grow, without the reference")
	fs.DurationVar(&s.timeout, "timeout", 600*time.Second, "time a run gets before it counts as unfinished; a release of the reference gets less when another has long finished")
	fs.StringVar(&s.peer, "peer", "../shared/tools/peer", "script that installs and runs the reference")
	fs.StringVar(&s.version, "versions", "1.2.1,1.4.2", "releases of the reference, by comma; each row is measured against the fastest")
	fs.StringVar(&s.binary, "binary", "", "replay binary; empty: build it")
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "tile" {
		return runTile(args[1:], stderr)
	}
	fs := flag.NewFlagSet("benchpeer", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var s settings
	s.bindFlags(fs)
	if err := fs.Parse(args); err != nil {
		return 2
	}
	rows, err := s.checkFlags(fs)
	if err != nil {
		fmt.Fprintf(stderr, "benchpeer: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	missed, err := s.measureAll(ctx, rows, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "benchpeer: %v\n", err)
		return 1
	}
	if missed > 0 && !s.quick {
		return 1
	}
	return 0
}

// checkFlags complains about flags and returns the rows that they ask for.
func (s *settings) checkFlags(fs *flag.FlagSet) ([]row.Row, error) {
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("argument %q, want flags only, or tile", fs.Arg(0))
	case s.pairs < 1:
		return nil, fmt.Errorf("-pairs is %d, want at least 1", s.pairs)
	case s.timeout < time.Second:
		return nil, fmt.Errorf("-timeout is %v, want at least 1s", s.timeout)
	case s.scale && s.only != "":
		return nil, errors.New("-only chooses rows of the table, want it without -scale")
	}
	pattern, err := regexp.Compile(s.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	if s.quick {
		s.pairs = 1
	}
	var rows []row.Row
	for _, r := range row.All() {
		if !pattern.MatchString(r.Title) && !pattern.MatchString(r.Name()) {
			continue
		}
		if s.quick {
			r = r.Quick()
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("-only %q matches no row", s.only)
	}
	return rows, nil
}

// bench is what all measurements share.
type bench struct {
	settings
	place  place
	ours   program
	peers  []program
	out    io.Writer // the tables
	status io.Writer // what is being run
}

// measureAll prints the tables and returns how many rows missed a bound.
func (s *settings) measureAll(ctx context.Context, rows []row.Row, out, status io.Writer) (missed int, err error) {
	dir, err := os.MkdirTemp("", "benchpeer")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{settings: *s, place: place{dir, filepath.Join(dir, "launch")}, out: out, status: status}
	if err := stopwatch.Build(ctx, b.place.launch, "./tools/benchpeer/launch"); err != nil {
		return 0, err
	}
	if s.binary, err = stopwatch.Find(ctx, s.binary, dir); err != nil {
		return 0, err
	}
	b.ours = program{name: "ours", argv: []string{s.binary}, tail: []string{"--compat", "dynamo-1.2"}, timeout: s.timeout}
	if s.scale {
		return b.measureScaling(ctx)
	}
	if _, err := os.Stat(s.peer); err != nil {
		fmt.Fprintf(out, "benchpeer: skipped, there is no reference at %s\n", s.peer)
		return 0, nil
	}
	for _, version := range strings.Split(s.version, ",") {
		p, err := s.peerProgram(ctx, version)
		if err != nil {
			return 0, err
		}
		b.peers = append(b.peers, p)
	}
	return b.printTable(ctx, rows)
}

// peerProgram returns a release of the reference, installed when it is not yet.
func (s *settings) peerProgram(ctx context.Context, version string) (program, error) {
	script, err := filepath.Abs(s.peer)
	if err != nil {
		return program{}, err
	}
	if out, err := exec.CommandContext(ctx, script, version, "--help").CombinedOutput(); err != nil {
		return program{}, fmt.Errorf("%s %s --help: %w\n%s", s.peer, version, err, out)
	}
	p := program{name: version, argv: []string{script, version}}
	return p.withTimeout(s.timeout), nil
}
