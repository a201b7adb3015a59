// Command benchsweep measures sweeps of 200 cells: how much faster they are on
// two cores than on one, and what a cell costs beside its replay.
//
//	go run ./tools/benchsweep
//	go run ./tools/benchsweep -pairs 11 -binary bin/replay
//
// It ends with exit code 1 when a bound is missed. Times are real time, so it
// wants a machine with nothing else to do; processor time, which it prints beside
// it, tells what others took.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	pairs    int
	speedup  float64
	overhead time.Duration
	trace    string
	binary   string
}

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("benchsweep", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var s settings
	fs.IntVar(&s.pairs, "pairs", 7, "sweeps on one core and on two, in turn")
	fs.Float64Var(&s.speedup, "speedup", 1.8, "times as fast as on one core that two cores are to be")
	fs.DurationVar(&s.overhead, "overhead", 5*time.Millisecond, "most that a cell may cost beside its replay")
	fs.StringVar(&s.trace, "trace", "../shared/traces/mooncake_conversation.jsonl", "the trace to replay")
	fs.StringVar(&s.binary, "binary", "", "replay binary; empty: build it")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if s.pairs < 1 || fs.NArg() > 0 {
		fmt.Fprintln(stderr, "benchsweep: want flags only, and at least one pair")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	held, err := s.measure(ctx, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "benchsweep: %v\n", err)
		return 1
	}
	if !held {
		return 1
	}
	return 0
}

// cells is the number of cells of both grids.
const cells = 200

// replays is a grid of replays of some 20 ms each.
func (s *settings) replays() []string {
	return []string{
		"--trace", s.trace, "--set", "block-size=512", "--output", "csv",
		"--grid", "router=round_robin,kv", "--grid", "workers=8,12,16,20,24", "--grid", "max-num-seqs=64,128,192,256",
		"--grid", "num-gpu-blocks=2000,3000,4000,5000,6000",
	}
}

// nothing is a grid of cells in which next to nothing is replayed.
func nothing() []string {
	return []string{
		"--set", "input-tokens=10", "--set", "output-tokens=1", "--set", "request-count=1", "--output", "csv",
		"--grid", "num-gpu-blocks=100,101,102,103,104,105,106,107,108,109", "--grid", "seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20",
	}
}

// measure prints what it measures and says whether the bounds hold.
func (s *settings) measure(ctx context.Context, out io.Writer) (held bool, err error) {
	if _, err := os.Stat(s.trace); err != nil {
		fmt.Fprintf(out, "benchsweep: skipped, there is no trace at %s\n", s.trace)
		return true, nil
	}
	dir, err := os.MkdirTemp("", "benchsweep")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.binary == "" {
		s.binary = filepath.Join(dir, "replay")
		if text, err := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "./cmd/replay").CombinedOutput(); err != nil {
			return false, fmt.Errorf("go build ./cmd/replay: %w\n%s", err, text)
		}
	}
	fmt.Fprintf(out, "%s, %d cells; whole commands on %d cores, least of %d in turn\n", filepath.Base(s.trace), cells, runtime.NumCPU(), s.pairs)
	fast, err := s.cores(ctx, out)
	if err != nil {
		return false, err
	}
	cheap, err := s.overheads(ctx, out)
	return fast && cheap, err
}

// cores compares one core with two.
func (s *settings) cores(ctx context.Context, out io.Writer) (held bool, err error) {
	if runtime.NumCPU() < 2 {
		fmt.Fprintln(out, "one core only: nothing to compare")
		return true, nil
	}
	var one, two cost
	for i := range s.pairs {
		a, err := s.once(ctx, append([]string{"sweep", "--jobs", "1"}, s.replays()...)...)
		if err != nil {
			return false, err
		}
		b, err := s.once(ctx, append([]string{"sweep", "--jobs", "2"}, s.replays()...)...)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(a.table, b.table) {
			return false, errors.New("one core and two give different tables")
		}
		one, two = one.least(a, i == 0), two.least(b, i == 0)
	}
	ratio := one.wall.Seconds() / two.wall.Seconds()
	held = ratio >= s.speedup
	fmt.Fprintf(out, "1 core   %v (processor %v)\n", ms(one.wall), ms(one.cpu))
	fmt.Fprintf(out, "2 cores  %v (processor %v): %.2f times as fast, at least %.2f: %s\n", ms(two.wall), ms(two.cpu), ratio, s.speedup, verdict(held))
	fmt.Fprintf(out, "by processor time, two idle cores are %.2f times as fast at most\n", 2*one.cpu.Seconds()/two.cpu.Seconds())
	return held, nil
}

// overheads measures cells that are next to nothing.
func (s *settings) overheads(ctx context.Context, out io.Writer) (held bool, err error) {
	held = true
	for _, way := range []struct {
		name string
		args []string
	}{
		{"in one process", []string{"sweep", "--jobs", "1"}},
		{"on a queue, in processes of their own", []string{"sweep", "run", "--jobs", "1"}},
	} {
		var least cost
		for i := range s.pairs {
			c, err := s.once(ctx, append(way.args, nothing()...)...)
			if err != nil {
				return false, err
			}
			least = least.least(c, i == 0)
		}
		ok := least.wall <= cells*s.overhead
		held = held && ok
		fmt.Fprintf(out, "a cell of nothing, %s: %.2f ms (processor %.2f ms), at most %v: %s\n", way.name,
			perCell(least.wall), perCell(least.cpu), s.overhead, verdict(ok))
	}
	return held, nil
}

func perCell(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) / cells }

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func verdict(held bool) string {
	if held {
		return "ok"
	}
	return "MISSED"
}

// cost is what a command took and printed.
type cost struct {
	wall, cpu time.Duration
	table     []byte
}

// least is the least of both; first says that c is none yet.
func (c cost) least(o cost, first bool) cost {
	if first {
		return o
	}
	return cost{min(c.wall, o.wall), min(c.cpu, o.cpu), o.table}
}

// once runs a command.
func (s *settings) once(ctx context.Context, args ...string) (cost, error) {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	started := time.Now()
	table, err := cmd.Output()
	wall := time.Since(started)
	if err != nil {
		return cost{}, fmt.Errorf("replay %v: %w\n%s", args, err, &errs)
	}
	if n := bytes.Count(table, []byte{'\n'}); n != cells+1 {
		return cost{}, fmt.Errorf("replay %v: %d lines, want %d", args, n, cells+1)
	}
	state := cmd.ProcessState
	return cost{wall, state.UserTime() + state.SystemTime(), table}, nil
}
