package watch_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/report/watch"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// trial is a replay with a view.
type trial struct {
	spec   replay.Spec
	screen watch.Screen
	clock  time.Time
}

// newTrial returns a trial of one pool. Each read of the real clock advances it by 100 ms.
func newTrial(requests, input, output, workers int, interval sim.Time) *trial {
	engine := engineargs.Default()
	engine.Blocks, engine.MaxSeqs = 256, 16
	x := &trial{
		spec: replay.Spec{
			Synthetic: loadgen.Synthetic{Requests: requests, Input: input, Output: output, Interval: interval, Turns: 1},
			Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(engine, workers)},
		},
		clock: time.Unix(0, 0),
	}
	x.screen = watch.Screen{View: new(watch.View), Prefix: "replay: ", Now: func() time.Time {
		x.clock = x.clock.Add(100 * time.Millisecond)
		return x.clock
	}}
	return x
}

// splitPools divides the pool into two pools.
func (x *trial) splitPools(decode int) {
	first, second := x.spec.Pools[0], x.spec.Pools[0]
	first.Engine.Role, second.Engine.Role, second.Count = scheduler.Prefill, scheduler.Decode, decode
	x.spec.Pools = replay.TwoPools(first, second)
}

// run runs the replay, and calls look after each update of the view.
func (x *trial) run(t *testing.T, look func()) {
	t.Helper()
	_, err := x.spec.Run(context.Background(), replay.Streams{Observer: x.screen.View, Progress: func(done, total int) {
		x.screen.Progress(done, total)
		look()
	}})
	if err != nil {
		t.Fatal(err)
	}
	x.screen.Close(true)
}

// Transcripts show the view of a replay on a terminal and in a log.
func TestTranscripts(t *testing.T) {
	datadriven.RunTest(t, "testdata/watch.txt", func(t *testing.T, d *datadriven.TestData) string {
		requests, input, output, workers, decode, interval := 600, 500, 60, 1, 0, 0
		columns, lines, router, every := 80, 24, "", 0
		var frames []int
		narrow := 0
		for name, to := range map[string]any{
			"requests": &requests, "input": &input, "output": &output, "workers": &workers, "decode": &decode, "interval": &interval,
			"columns": &columns, "lines": &lines, "router": &router, "every": &every, "frames": &frames, "narrow": &narrow,
		} {
			switch to := to.(type) {
			case *[]int:
				for _, arg := range d.CmdArgs {
					if arg.Key == name {
						*to = make([]int, len(arg.Vals))
						for i := range arg.Vals {
							arg.Scan(t, i, &(*to)[i])
						}
					}
				}
			default:
				d.MaybeScanArgs(t, name, to)
			}
		}
		x := newTrial(requests, input, output, workers, sim.Time(interval))
		if decode > 0 {
			x.splitPools(decode)
		}
		if router == "kv" {
			x.spec.Router = policy.KV
		}
		x.screen.Every = time.Duration(every) * time.Millisecond
		if d.Cmd == "log" {
			var log bytes.Buffer
			x.screen.Out = &log
			x.run(t, func() {})
			return log.String()
		}
		terminal := newTerminal(t, columns, lines)
		x.screen.Out, x.screen.Colors = terminal, d.HasArg("colors")
		x.screen.Size = func() watch.Size { return watch.Size{Columns: terminal.columns, Lines: len(terminal.cells)} }
		var seen strings.Builder
		_, _ = terminal.Write([]byte("$ replay trace --watch\n"))
		at := 0
		x.run(t, func() {
			if at++; len(frames) > 0 && at == frames[0] {
				fmt.Fprintf(&seen, "after look %d:\n%v", at, terminal)
				frames = frames[1:]
				if narrow > 0 {
					terminal.resize(narrow)
				}
			}
		})
		_, _ = terminal.Write([]byte("the report\n"))
		fmt.Fprintf(&seen, "in the end, after %d looks:\n%v", at, terminal)
		return seen.String()
	})
}

// For any terminal and any change of its size, frames fit, do not scroll, and leave no text behind.
func TestFramesFit(t *testing.T) {
	for seed := range uint64(150) {
		random := sim.NewRand(seed, "watch")
		x := newTrial(100+random.IntN(300), 1+random.IntN(900), 1+random.IntN(80), 2+random.IntN(20), sim.Time(random.IntN(60)))
		switch random.IntN(4) {
		case 0:
			x.spec.Router = policy.KV
		case 1:
			x.spec.Mode, x.spec.MaxInFlight = loadgen.Concurrency, 1+random.IntN(60)
		case 2:
			x.splitPools(1 + random.IntN(20))
		}
		terminal := newTerminal(t, 1+random.IntN(120), 2+random.IntN(40))
		x.screen.Out, x.screen.Colors = terminal, random.IntN(2) == 0
		x.screen.Size = func() watch.Size { return watch.Size{Columns: terminal.columns, Lines: len(terminal.cells)} }
		x.run(t, func() {
			size := watch.Size{Columns: 1 + random.IntN(120), Lines: 1 + random.IntN(40)}
			for _, line := range x.screen.View.Frame(size, time.Second, false) {
				if n := utf8.RuneCountInString(line); n >= max(2, size.Columns) {
					t.Fatalf("seed %d: %q is %d columns wide, in a terminal of %d", seed, line, n, size.Columns)
				}
			}
			if n := len(x.screen.View.Frame(size, time.Second, false)); n < 1 || n > max(1, size.Lines-1) {
				t.Fatalf("seed %d: %d lines in a terminal of %d", seed, n, size.Lines)
			}
		})
		if terminal.columns > 1 && terminal.scrolled > 0 {
			t.Errorf("seed %d: %d lines have scrolled away", seed, terminal.scrolled)
		}
		if left := strings.Trim(terminal.String(), "|\n"); terminal.columns > 1 && left != "" {
			t.Errorf("seed %d: left on the terminal:\n%s", seed, left)
		}
	}
}

// In every view with a common time of the workers, requests in flight are the sum of running and waiting requests.
// None remain at the end.
func TestViewAddsUp(t *testing.T) {
	for seed := range uint64(60) {
		random := sim.NewRand(seed, "watch")
		x := newTrial(100+random.IntN(300), 1+random.IntN(900), 2+random.IntN(80), 1, sim.Time(random.IntN(40)))
		x.screen.Out = new(bytes.Buffer)
		x.run(t, func() {
			var flying, running, waiting, done, total, percent int
			line := x.screen.View.Line()
			_, rest, _ := strings.Cut(line, ": ")
			if _, err := fmt.Sscanf(rest, "%d/%d requests done (%d%%), in flight %d, running %d, waiting %d,", &done, &total, &percent, &flying, &running, &waiting); err != nil {
				t.Fatalf("seed %d: %q: %v", seed, line, err)
			}
			if flying < running || running > 16 || done+flying > total {
				t.Errorf("seed %d: %s", seed, line)
			}
		})
		if got, want := x.screen.View.EndLine(), fmt.Sprintf("%d/%d requests done (100%%)", x.spec.Synthetic.Requests, x.spec.Synthetic.Requests); !strings.HasSuffix(got, want) {
			t.Errorf("seed %d: %q, want it to end with %q", seed, got, want)
		}
	}
}

// A watched replay has the same report as an unwatched one, to the last bit.
func TestNothingIsTouched(t *testing.T) {
	for seed := range uint64(40) {
		make := func() *trial {
			random := sim.NewRand(seed, "touched")
			x := newTrial(50+random.IntN(200), 1+random.IntN(900), 1+random.IntN(80), 2+random.IntN(6), sim.Time(random.IntN(60)))
			switch random.IntN(3) {
			case 0:
				x.spec.Router = policy.KV
			case 1:
				x.splitPools(1 + random.IntN(4))
			}
			return x
		}
		var reports [2]any
		for i, watched := range []bool{false, true} {
			x := make()
			streams := replay.Streams{}
			if watched {
				x.screen.Out = new(bytes.Buffer)
				streams.Observer, streams.Progress = x.screen.View, x.screen.Progress
			}
			result, err := x.spec.Run(context.Background(), streams)
			if err != nil {
				t.Fatal(err)
			}
			result.Report.SetWall(time.Second)
			reports[i] = *result.Report
		}
		if !reflect.DeepEqual(reports[0], reports[1]) {
			t.Errorf("seed %d: %+v\nwithout and %+v\nwith somebody who looks on", seed, reports[0], reports[1])
		}
	}
}
