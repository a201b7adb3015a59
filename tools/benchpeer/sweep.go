package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/replay-llm/replay/tools/stopwatch"
)

// sweeps measures sweeps of 200 cells: their speed-up on two cores, and the overhead per cell. sweeps prints CPU time
// and wall time. The difference shows the load of other processes.
type sweeps struct {
	*bench
	trace    string
	speedup  float64
	overhead time.Duration
}

func runSweeps(args []string, stdout, stderr io.Writer) int {
	s := &sweeps{bench: newBench("benchsweep", 7, "sweeps on one core and on two, in turn", stdout, stderr)}
	s.flags.StringVar(&s.trace, "trace", "", "the trace to replay; empty: the conversation trace")
	s.flags.Float64Var(&s.speedup, "speedup", 1.8, "times as fast as on one core that two cores are to be")
	s.flags.DurationVar(&s.overhead, "overhead", 5*time.Millisecond, "most that a cell may cost besides its replay")
	return s.run(args, func() error { return nil }, s.measure)
}

// cells is the number of cells of both grids.
const cells = 200

// replayGrid returns a grid of replays of about 20 ms each.
func (s *sweeps) replayGrid() []string {
	return []string{
		"--trace", s.trace, "--set", "block-size=512", "--output", "csv",
		"--grid", "router=round_robin,kv", "--grid", "workers=8,12,16,20,24", "--grid", "max-num-seqs=64,128,192,256",
		"--grid", "num-gpu-blocks=2000,3000,4000,5000,6000",
	}
}

// emptyGrid returns a grid of very small replays.
func emptyGrid() []string {
	return []string{
		"--set", "input-tokens=10", "--set", "output-tokens=1", "--set", "request-count=1", "--output", "csv",
		"--grid", "num-gpu-blocks=100,101,102,103,104,105,106,107,108,109", "--grid", "seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20",
	}
}

// measure prints the results and returns the number of missed bounds.
func (s *sweeps) measure(ctx context.Context) (missed int, err error) {
	var ok bool
	if s.trace, ok = s.findTrace(s.trace); !ok {
		return 0, nil
	}
	fmt.Fprintf(s.out, "%s, %d cells; whole commands on %d cores, least of %d in turn\n", filepath.Base(s.trace), cells, runtime.NumCPU(), s.pairs)
	if runtime.NumCPU() < 2 {
		fmt.Fprintln(s.out, "one core only: nothing to compare")
	} else if missed, err = s.compareCores(ctx); err != nil {
		return missed, err
	}
	least, err := s.runInTurn(ctx, append([]string{"sweep", "--jobs", "1"}, emptyGrid()...))
	if err != nil {
		return missed, err
	}
	perCell := func(d time.Duration) float64 { return d.Seconds() * 1000 / cells }
	fmt.Fprintf(s.out, "a cell of nothing: %.2f ms (processor %.2f ms), at most %v: %s\n",
		perCell(least[0].Wall), perCell(least[0].CPU), s.overhead, countMissed(&missed, least[0].Wall <= cells*s.overhead))
	return missed, nil
}

// compareCores compares the time of a sweep on one core and on two cores.
func (s *sweeps) compareCores(ctx context.Context) (missed int, err error) {
	least, err := s.runInTurn(ctx, append([]string{"sweep", "--jobs", "1"}, s.replayGrid()...), append([]string{"sweep", "--jobs", "2"}, s.replayGrid()...))
	if err != nil {
		return 0, err
	}
	one, two := least[0], least[1]
	if !bytes.Equal(one.Output, two.Output) {
		return 0, errors.New("one core and two give different tables")
	}
	ratio := one.Wall.Seconds() / two.Wall.Seconds()
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	fmt.Fprintf(s.out, "1 core   %v (processor %v)\n", round(one.Wall), round(one.CPU))
	fmt.Fprintf(s.out, "2 cores  %v (processor %v): %.2f times as fast, at least %.2f: %s\n",
		round(two.Wall), round(two.CPU), ratio, s.speedup, countMissed(&missed, ratio >= s.speedup))
	fmt.Fprintf(s.out, "by processor time, two idle cores are %.2f times as fast at most\n", 2*one.CPU.Seconds()/two.CPU.Seconds())
	return missed, nil
}

// runInTurn runs the sweeps alternately and repeatedly. runInTurn returns the lowest cost of each sweep with its last
// output.
func (s *sweeps) runInTurn(ctx context.Context, sweeps ...[]string) ([]stopwatch.Cost, error) {
	least := make([]stopwatch.Cost, len(sweeps))
	for round := range s.pairs {
		for i, args := range sweeps {
			c, err := stopwatch.Once(ctx, s.binary, args...)
			if err != nil {
				return nil, err
			}
			if n := bytes.Count(c.Output, []byte{'\n'}); n != cells+1 {
				return nil, fmt.Errorf("replay %v: %d lines, must be %d", args, n, cells+1)
			}
			if round > 0 {
				c.Wall, c.CPU = min(c.Wall, least[i].Wall), min(c.CPU, least[i].CPU)
			}
			least[i] = c
		}
	}
	return least, nil
}
