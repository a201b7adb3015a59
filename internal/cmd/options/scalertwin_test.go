package options

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/peer"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/harness"
)

const scalerExamples = "../../../examples/scaler-process/"

// withScalers runs a test with each example autoscaler in a program. Names are the folders of the programs.
func withScalers(t *testing.T, test func(t *testing.T, name, program string)) {
	t.Run("go", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "scaler")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, scalerExamples+"go").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		test(t, "go", program)
	})
	t.Run("python", func(t *testing.T) {
		test(t, "python", optional.Python(t)+" "+scalerExamples+"python/scaler.py")
	})
}

// readScaler reads the autoscaler file of an example.
func readScaler(t *testing.T, path string) *replay.Autoscale {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := files.ParseAutoscale(path, text, false)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// An autoscaler in a program makes the same decisions as the equivalent autoscaler file.
func TestScalersInProgramsEqualTheirTwins(t *testing.T) {
	withScalers(t, func(t *testing.T, name, program string) {
		own, twin := readScaler(t, scalerExamples+name+"/process.yaml"), readScaler(t, scalerExamples+name+"/twin.yaml")
		if !strings.Contains(own.Program.Command, "scaler") || own.Min != twin.Min || own.Max != twin.Max || !reflect.DeepEqual(own.Startup, twin.Startup) || own.Delay != twin.Delay {
			t.Errorf("%s: process.yaml and twin.yaml differ in more than the scaler", name)
		}
		changes := 0
		for seed := range uint64(6) {
			ask, err := peer.Start(context.Background(), peer.Options{Name: name, Command: program, Timeout: 20 * time.Second, Stderr: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			asked, err := autoscale.NewProcess(ask, own, autoscale.Workers{}, seed)
			if err != nil {
				t.Fatal(err)
			}
			changes += compareTicks(t, rand.New(rand.NewPCG(seed, 1)), autoscale.New(twin), asked)
			if err := ask.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if changes < 60 {
			t.Errorf("%s: %d changes of the number of workers, want many", name, changes)
		}
	})
}

// compareTicks compares the decisions of two scalers at the same 200 ticks. compareTicks returns the number of times
// that the scalers changed the number of workers.
func compareTicks(t *testing.T, r *rand.Rand, twin, asked autoscale.Scaler) (changes int) {
	t.Helper()
	s := autoscale.Signals{Workers: 2}
	for i := range 200 {
		s.Now += 15_000
		if i > 0 {
			drawScrape(r, &s)
		}
		want, got := twin.Want(&s), asked.Want(&s)
		if err := asked.(autoscale.Fallible).Err(); err != nil || want != got {
			t.Fatalf("tick %d: the program wants %d, %v, the file wants %d (%s): %+v", i, got, err, want, twin.(autoscale.Explainer).Why(), s)
		}
		if want != s.Workers {
			changes++
		}
		s.Workers = want
	}
	return changes
}

// drawScrape draws random signals for a tick. Some workers are still starting. A load lasts for several ticks.
func drawScrape(r *rand.Rand, s *autoscale.Signals) {
	load := 3 + r.IntN(14)
	if len(s.Each) > 0 && r.IntN(4) > 0 {
		load = max(s.Each[0].Running, 1)
	}
	s.Scrape = autoscale.Scrape{At: s.Now - 2000, Ready: max(s.Workers-r.IntN(4)/2, 0), Held: max(r.IntN(30)-28, 0)}
	for range s.Ready {
		g := autoscale.Gauge{Running: load, Waiting: r.IntN(3), KV: r.Float64()}
		s.Each, s.Running, s.Waiting, s.KV = append(s.Each, g), s.Running+g.Running, s.Waiting+g.Waiting, s.KV+g.KV
	}
	s.Missing = r.IntN(s.Workers - s.Ready + 1)
	s.Starting = s.Workers - s.Ready - s.Missing
	s.Rate, s.InputRate = r.Float64()*10, r.Float64()*1e6
}

// In a replay, both autoscalers add and remove workers at the same times, also for one of two pools.
func TestReplaysWithScalersInProgramsEqualTheirTwins(t *testing.T) {
	dir, trace := t.TempDir(), " trace=../../../testdata/traces/chat-hour.jsonl until=20m speedup=16"
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nest := func(text string) string {
		return "prefill: {metrics: [{metric: in_flight, target: 2}]}\ndecode:\n  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n"
	}
	scale := " scale=" + write("scale.yaml", "- {at: 40s, workers: 6}\n")
	withScalers(t, func(t *testing.T, name, program string) {
		texts := [2]string{}
		for i, file := range []string{"/twin.yaml", "/process.yaml"} {
			text, err := os.ReadFile(scalerExamples + name + file)
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = regexp.MustCompile("(?m)^command: .*").ReplaceAllString(string(text), "command: "+program)
		}
		for _, w := range []string{"router=kv", "router=least-loaded faults=../../../testdata/faults/gone-and-update.yaml", "workers=3 router=kv" + scale, "prefill-workers=1 decode-workers=2 router=kv"} {
			var results [2]*harness.Result
			for i, text := range texts {
				if strings.Contains(w, "decode") {
					text = nest(text)
				}
				results[i] = replayWith(t, w+trace, replay.Streams{}, plan.Setting{Name: "autoscale", Value: write("autoscale.yaml", text)})
			}
			want, got := tellScaling(results[0]), tellScaling(results[1])
			if len(want) < 150 || want != got {
				t.Errorf("%s: %s: the file scales\n%s\nthe program\n%s", name, w, want, got)
			}
		}
	})
}

// tellScaling returns the actions of autoscalers without their reasons.
func tellScaling(r *harness.Result) string {
	var b strings.Builder
	for _, s := range r.Scaling {
		for _, a := range s.Acts {
			fmt.Fprintf(&b, "%v: %v from %d to %d\n", s.Stage, float64(a.At), a.From, a.To)
		}
		fmt.Fprintf(&b, "%v\n", s.Sizes)
	}
	return b.String()
}

// The documentation of policies contains the Python program, and the documentation of autoscalers refers to its
// program.
func TestProgramsAreDocumented(t *testing.T) {
	program, err := os.ReadFile("../../../examples/policy-process/python/policy.py")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ = bytes.Cut(program, []byte("\"\"\"\n\n")) // remove its description
	text, err := os.ReadFile("../../../docs/policies.md")
	if err != nil || len(program) == 0 || !bytes.Contains(text, program) {
		t.Errorf("policies.md does not show the program: %v", err)
	}
	const scaler = "../examples/scaler-process/python/scaler.py"
	text, err = os.ReadFile("../../../docs/autoscaling.md")
	if err != nil || !bytes.Contains(text, []byte("]("+scaler+")")) {
		t.Errorf("autoscaling.md does not name %s: %v", scaler, err)
	}
}
