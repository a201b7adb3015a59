package replay_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// scaledBy returns a replay of 6 s with a program as autoscaler, which decides each second.
func scaledBy(script string) replay.Spec {
	spec := givenSpec()
	a := autoscale.Default(autoscale.ByProgram)
	a.Sync, a.Interval, a.Program.Command, a.Program.Timeout = 1000, 500, script, time.Minute
	spec.Autoscale = &a
	return spec
}

// climb is a program that requests one worker more each time, and records each line in a file.
func climb(note string) string {
	return `n=4; while read line; do echo "$line" >> '` + note + `'; case $line in *protocol*) echo '{"version":1}';; *) n=$((n+1)); echo '{"workers":'$n',"why":"up to '$n'"}';; esac; done`
}

// TestScalerProcess checks that a program decides at each tick, that the acts have its reasons, and that two pools
// have a program each.
func TestScalerProcess(t *testing.T) {
	note := filepath.Join(t.TempDir(), "lines")
	spec := scaledBy(climb(note))
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	acts := result.Scaling[0].Acts
	if len(acts) < 3 || acts[0].At != 0 || acts[0].From != 4 || acts[0].To != 5 || acts[1].Why != "up to 6" {
		t.Errorf("acts are %+v, want one worker more each second", acts)
	}
	text, err := os.ReadFile(note)
	if lines := strings.Split(string(text), "\n"); err != nil || !strings.Contains(lines[0], `"role":"aggregated","least":1,"most":10,"sync":1000`) || !strings.HasPrefix(lines[2], `{"waiting_total":`) {
		t.Errorf("%v: lines are\n%s", err, text)
	}

	prefill, decode := engineargs.Default(), engineargs.Default()
	prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
	spec = scaledBy(climb(note))
	spec.Pools = replay.TwoPools(replay.Pool{Engine: prefill, Count: 4}, replay.Pool{Engine: decode, Count: 4})
	other := *spec.Autoscale
	other.Program = &autoscale.Program{Command: climb(note + "2")}
	spec.AutoscaleDecode = &other
	if result, err = spec.Run(context.Background(), replay.Streams{}); err != nil {
		t.Fatal(err)
	}
	if len(result.Scaling) != 2 || !slices.Equal(result.Scaling[0].Acts[:3], acts[:3]) || !slices.Equal(result.Scaling[1].Acts[:3], acts[:3]) {
		t.Errorf("with two pools acts are %+v, want those of each to be %+v", result.Scaling, acts)
	}
	if text, err := os.ReadFile(note + "2"); err != nil || !strings.Contains(string(text), `"role":"decode"`) {
		t.Errorf("%v: decode lines are\n%s", err, text)
	}

	// A built-in autoscaler decides for the other pool.
	slots := autoscale.Default(autoscale.BySlots)
	slots.Slots, slots.Sync, slots.Interval = []autoscale.Slot{{At: 2000, Workers: 7}}, 1000, 500
	spec.AutoscaleDecode = &slots
	if result, err = spec.Run(context.Background(), replay.Streams{}); err != nil {
		t.Fatal(err)
	}
	if own := result.Scaling[1].Acts; !slices.Equal(result.Scaling[0].Acts[:3], acts[:3]) || len(own) == 0 || own[0].At != 2000 || own[0].To != 7 {
		t.Errorf("beside a schedule acts are %+v", result.Scaling)
	}
}

// TestScalingCountsGPUs checks the cost of a worker, which is the price of a GPU times its number of GPUs. The price
// is that of the file or, without one, the default price of the GPU.
func TestScalingCountsGPUs(t *testing.T) {
	for _, tc := range []struct{ price, want float64 }{{0, 2.5}, {4, 4}} {
		spec := scaledBy("n=4; while read line; do case $line in *protocol*) echo '{\"version\":1}';; *) n=$((n+1)); echo $n;; esac; done")
		spec.Pools[0].Engine.PassTimes = timing.ParseSource("roofline:h100/llama-3.1-70b?tp=4")
		spec.Autoscale.Cost = tc.price
		result, err := spec.Run(context.Background(), replay.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		u := result.Scaling[0].Usage()
		if u.WorkerHours == 0 || math.Abs(u.GPUHours/u.WorkerHours-4) > 1e-9 || math.Abs(u.Cost/u.GPUHours-tc.want) > 1e-9 {
			t.Errorf("at %v a GPU: %+v, want 4 GPU-hours a worker-hour and %v a GPU-hour", tc.price, u, tc.want)
		}
	}
}

// TestScalerProcessErrors checks that an error of a program ends the replay within the timeout of an answer. The
// error names the tick and the line.
func TestScalerProcessErrors(t *testing.T) {
	const hello = `read x; echo '{"version":1}'; `
	for _, tc := range []struct{ script, want string }{
		{`exit 2`, ": exit status 2, must be an answer to line 1"},
		{`read x; echo 3; read x`, `: the answer to line 1 is "3", must be {"version": 1}`},
		{hello + `read x; echo 4; read x; exit 1`, "tick at 1s: scaler process X: exit status 1, must be an answer to line 3"},
		{hello + `read x; echo four; read x`, `tick at 0s: scaler process X: the answer to line 2 is "four", must be a number of workers, 0 to 100000, or an object such as`},
		{hello + `read x; echo -3; read x`, `tick at 0s: scaler process X: the answer to line 2 is "-3", must be a number of workers`},
		{hello + `sleep 60`, "tick at 0s: scaler process X: no answer to line 2 within 400ms"},
		{hello + `read x; printf '4\n4\n'; read x; sleep 1`, "two lines in answer to one"},
		{hello + `while read x; do echo 4; done; exit 7`, "exit status 7 after its last answer"},
	} {
		spec := scaledBy(tc.script)
		if strings.Contains(tc.want, "400ms") {
			spec.Autoscale.Program.Timeout = 400 * time.Millisecond
		}
		started := time.Now()
		result, err := spec.Run(context.Background(), replay.Streams{})
		want := strings.Replace(tc.want, "X", tc.script, 1)
		if err == nil || result != nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "scaler process "+tc.script) {
			t.Errorf("got %v, want %s", err, want)
		}
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("%s: took %v", tc.script, took)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	spec := scaledBy(hello + `sleep 60`)
	spec.Autoscale.Program.Timeout = time.Minute
	if _, err := spec.Run(ctx, replay.Streams{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// failing is a custom scaler that cannot decide.
type failing struct{ err error }

func (failing) Want(*autoscale.Signals) int { return 9 }
func (f failing) Err() error                { return f.err }

// TestScalerFails checks the errors of a custom scaler, and a missing scaler.
func TestScalerFails(t *testing.T) {
	spec, broken := scaledBy("exit 1"), errors.New("no idea")
	if _, err := spec.Run(context.Background(), replay.Streams{Scaler: failing{broken}}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if _, err := spec.Run(context.Background(), replay.Streams{Scaler: failing{}}); err != nil {
		t.Errorf("a scaler that can decide: %v", err)
	}
	spec.Autoscale.Kind = autoscale.Custom
	if _, err := spec.Steps(context.Background(), replay.Streams{}); err == nil || !strings.Contains(err.Error(), "requires a scaler") {
		t.Errorf("in steps without a scaler: %v", err)
	}
}

// TestScalerProcessBesidePerfect checks that a perfect autoscaler of the other pool uses a separate replay without
// the program.
func TestScalerProcessBesidePerfect(t *testing.T) {
	note := filepath.Join(t.TempDir(), "lines")
	spec := scaledBy(climb(note))
	prefill, decode := engineargs.Default(), engineargs.Default()
	prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
	spec.Pools = replay.TwoPools(replay.Pool{Engine: prefill, Count: 4}, replay.Pool{Engine: decode, Count: 4})
	perfect := autoscale.Default(autoscale.Foreknown)
	perfect.Load.InFlight, perfect.Sync = 2, 500
	spec.AutoscaleDecode = &perfect
	if _, err := spec.Run(context.Background(), replay.Streams{}); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(note); strings.Count(string(text), "protocol") != 1 {
		t.Errorf("lines are\n%s\nwant one program", text)
	}
}

// TestScalerProcessRefusals checks that settings that are not supported with a scaler in a program are rejected.
func TestScalerProcessRefusals(t *testing.T) {
	for want, run := range map[string]func(*replay.Spec) error{
		"an autoscaler in a program in a replay in steps: the memory of the program cannot be copied": func(s *replay.Spec) error {
			_, err := s.Steps(context.Background(), replay.Streams{})
			return err
		},
		"an autoscaler in a program in a replay that is forked": func(s *replay.Spec) error {
			w, err := s.Open(context.Background(), replay.Streams{})
			if err != nil {
				return err
			}
			s.Possible = []engines.Change{}
			_, err = s.Fork(context.Background(), w)
			return err
		},
		"an autoscaler is not supported in real time": func(s *replay.Spec) error {
			_, err := s.RunLive(context.Background(), replay.Streams{}, replay.Live{})
			return err
		},
		"no program to ask": func(s *replay.Spec) error {
			s.Autoscale.Program = nil
			_, err := s.Run(context.Background(), replay.Streams{})
			return err
		},
	} {
		spec := scaledBy("exit 1")
		if err := run(&spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
