package options

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// placements records the workers to which requests are routed.
type placements struct {
	harness.NoObserver
	lines []string
}

func (p *placements) Routed(stage scheduler.Role, at sim.Time, x *router.Placement) {
	p.lines = append(p.lines, fmt.Sprintf("request %d at %v to %v worker %d", x.Request.ID, float64(at), stage, x.Worker))
}

// place replays with settings such as "workers=4 router=kv", and with the settings in more. place returns the workers
// to which requests are routed.
func place(t *testing.T, settings string, more ...plan.Setting) []string {
	t.Helper()
	seen := &placements{}
	replayWith(t, settings, replay.Streams{Observer: seen}, more...)
	return seen.lines
}

// replayWith replays with settings and returns the result.
func replayWith(t *testing.T, settings string, streams replay.Streams, more ...plan.Setting) *harness.Result {
	t.Helper()
	all := more
	for word := range strings.FieldsSeq(settings) {
		name, value, _ := strings.Cut(word, "=")
		all = append(all, plan.Setting{Name: name, Value: value})
	}
	o, file, mode, err := OptionsOf(all)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := o.Spec(file, mode)
	if err != nil {
		t.Fatalf("%s: %v", settings, err)
	}
	result, err := spec.Run(context.Background(), streams)
	if err != nil {
		t.Fatalf("%s: %v", settings, err)
	}
	return result
}

const (
	closed    = " input-tokens=900 output-tokens=40 request-count=300 shared-prefix-ratio=0.5 num-prefix-groups=8"
	synthetic = " arrival-interval-ms=4" + closed
)

// A policy file routes each request like the equivalent policy in Go.
func TestPoliciesEqualTheirTwins(t *testing.T) {
	picker := filepath.Join(t.TempDir(), "picker.yaml")
	if err := os.WriteFile(picker, []byte(`kind: EndpointPickerConfig
plugins:
- type: precise-prefix-cache-scorer
- type: kv-cache-utilization-scorer
- type: queue-scorer
schedulingProfiles:
- plugins:
  - {pluginRef: precise-prefix-cache-scorer, weight: 3}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 2}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	const traces = "trace=../../../testdata/traces/"
	workloads := []string{
		"workers=4" + synthetic, "workers=70" + synthetic, "workers=3 num-gpu-blocks=200 max-num-batched-tokens=512" + synthetic, "workers=4 engine=sglang" + synthetic,
		"workers=5 max-in-flight=40 seed=7" + closed, "workers=4 scale=testdata/scale.yaml" + synthetic,
		"prefill-workers=3 decode-workers=4" + synthetic, "prefill-workers=2 decode-workers=3 max-in-flight=30 block-size=128" + closed,
		"workers=4 speedup=50 " + traces + "sessions.jsonl", "workers=3 speedup=20 " + traces + "prefix_tree.jsonl", "workers=8 speedup=16 until=10m " + traces + "chat-hour.jsonl",
		"workers=4 max-in-flight=8 " + traces + "sessions.jsonl", "workers=2 " + traces + "burst.jsonl", "workers=2 " + traces + "preemption.jsonl",
	}
	for _, name := range files.PolicyNames() {
		twin, file := "router="+name, "../files/policies/"+name+".yaml"
		if name == "llm-d" {
			twin = "endpoint-picker=" + picker
		}
		t.Run(name, func(t *testing.T) {
			for _, w := range workloads {
				if name == "llm-d" && strings.Contains(w, "decode") {
					continue
				}
				want, got := place(t, w+" "+twin), place(t, w+" router-policy="+file)
				if len(want) < 5 {
					t.Errorf("%s: %d placements", w, len(want))
				}
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Fatalf("%s: placement %d of %d is %q, want %q", w, i, len(want), slices.Concat(got, []string{"none"})[min(i, len(got))], want[i])
					}
				}
			}
		})
	}
}
