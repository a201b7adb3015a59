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
	"path/filepath"
	"runtime"
	"time"

	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() { os.Exit(newSettings().tool.Run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	tool     stopwatch.Tool
	speedup  float64
	overhead time.Duration
}

func newSettings() *settings {
	s := new(settings)
	s.tool = stopwatch.Tool{Name: "benchsweep", Pairs: 7, Unit: "sweeps on one core and on two, in turn", Bind: s.bindFlags, Measure: s.printAll}
	return s
}

func (s *settings) bindFlags(fs *flag.FlagSet) {
	fs.Float64Var(&s.speedup, "speedup", 1.8, "times as fast as on one core that two cores are to be")
	fs.DurationVar(&s.overhead, "overhead", 5*time.Millisecond, "most that a cell may cost beside its replay")
}

// cells is the number of cells of both grids.
const cells = 200

// replayGrid returns a grid of replays of some 20 ms each.
func (s *settings) replayGrid() []string {
	return []string{
		"--trace", s.tool.Trace, "--set", "block-size=512", "--output", "csv",
		"--grid", "router=round_robin,kv", "--grid", "workers=8,12,16,20,24", "--grid", "max-num-seqs=64,128,192,256",
		"--grid", "num-gpu-blocks=2000,3000,4000,5000,6000",
	}
}

// emptyGrid returns a grid of cells in which next to nothing is replayed.
func emptyGrid() []string {
	return []string{
		"--set", "input-tokens=10", "--set", "output-tokens=1", "--set", "request-count=1", "--output", "csv",
		"--grid", "num-gpu-blocks=100,101,102,103,104,105,106,107,108,109", "--grid", "seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20",
	}
}

// printAll prints what it measures and reports whether the bounds hold.
func (s *settings) printAll(ctx context.Context, _ string, out io.Writer) (held bool, err error) {
	fmt.Fprintf(out, "%s, %d cells; whole commands on %d cores, least of %d in turn\n", filepath.Base(s.tool.Trace), cells, runtime.NumCPU(), s.tool.Pairs)
	fast, err := s.compareCores(ctx, out)
	if err != nil {
		return false, err
	}
	cheap, err := s.measureOverheads(ctx, out)
	return fast && cheap, err
}

// compareCores compares one core with two.
func (s *settings) compareCores(ctx context.Context, out io.Writer) (held bool, err error) {
	if runtime.NumCPU() < 2 {
		fmt.Fprintln(out, "one core only: nothing to compare")
		return true, nil
	}
	var one, two stopwatch.Cost
	for i := range s.tool.Pairs {
		a, err := s.runSweep(ctx, append([]string{"sweep", "--jobs", "1"}, s.replayGrid()...)...)
		if err != nil {
			return false, err
		}
		b, err := s.runSweep(ctx, append([]string{"sweep", "--jobs", "2"}, s.replayGrid()...)...)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(a.Output, b.Output) {
			return false, errors.New("one core and two give different tables")
		}
		one, two = leastCost(one, a, i == 0), leastCost(two, b, i == 0)
	}
	ratio := one.Wall.Seconds() / two.Wall.Seconds()
	held = ratio >= s.speedup
	fmt.Fprintf(out, "1 core   %v (processor %v)\n", roundTime(one.Wall), roundTime(one.CPU))
	fmt.Fprintf(out, "2 cores  %v (processor %v): %.2f times as fast, at least %.2f: %s\n", roundTime(two.Wall), roundTime(two.CPU), ratio, s.speedup, formatVerdict(held))
	fmt.Fprintf(out, "by processor time, two idle cores are %.2f times as fast at most\n", 2*one.CPU.Seconds()/two.CPU.Seconds())
	return held, nil
}

// measureOverheads measures cells that are next to nothing.
func (s *settings) measureOverheads(ctx context.Context, out io.Writer) (held bool, err error) {
	held = true
	for _, way := range []struct {
		name string
		args []string
	}{
		{"in one process", []string{"sweep", "--jobs", "1"}},
		{"on a queue, in processes of their own", []string{"sweep", "run", "--jobs", "1"}},
	} {
		var best stopwatch.Cost
		for i := range s.tool.Pairs {
			c, err := s.runSweep(ctx, append(way.args, emptyGrid()...)...)
			if err != nil {
				return false, err
			}
			best = leastCost(best, c, i == 0)
		}
		ok := best.Wall <= cells*s.overhead
		held = held && ok
		fmt.Fprintf(out, "a cell of nothing, %s: %.2f ms (processor %.2f ms), at most %v: %s\n", way.name,
			perCell(best.Wall), perCell(best.CPU), s.overhead, formatVerdict(ok))
	}
	return held, nil
}

func perCell(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) / cells }

func roundTime(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func formatVerdict(held bool) string {
	if held {
		return "ok"
	}
	return "MISSED"
}

// leastCost returns the least of both; with first, c is none yet.
func leastCost(c, o stopwatch.Cost, first bool) stopwatch.Cost {
	if first {
		return o
	}
	return stopwatch.Cost{Wall: min(c.Wall, o.Wall), CPU: min(c.CPU, o.CPU), Output: o.Output}
}

// runSweep runs a sweep.
func (s *settings) runSweep(ctx context.Context, args ...string) (stopwatch.Cost, error) {
	c, err := s.tool.Once(ctx, args...)
	if n := bytes.Count(c.Output, []byte{'\n'}); err == nil && n != cells+1 {
		err = fmt.Errorf("replay %v: %d lines, want %d", args, n, cells+1)
	}
	return c, err
}
