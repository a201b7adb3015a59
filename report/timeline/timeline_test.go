package timeline_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/timeline"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

// aggregated returns a replay with one busy pool behind a KV router.
func aggregated(engine engineargs.Engine) replay.Spec {
	a := engineargs.Default()
	a.Engine, a.Blocks, a.BlockTokens = engine, 40, 16
	if engine == engineargs.SGLang {
		a.SGLang.MaxPrefillTokens, a.SGLang.ChunkTokens = 16384, 8192
		a.SGLang.ClipNewTokens, a.SGLang.Conservativeness = 4096, 1
	}
	return replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 60, Input: 120, Output: 40, Interval: 15, Turns: 2, Delay: 50},
		Mode:      loadgen.Trace, Speedup: 1,
		Topology: replay.Topology{Pools: replay.OnePool(a, 2), Router: policy.KV, Seed: 1},
	}
}

// disaggregated returns a replay with two pools and a slow link between them.
func disaggregated() replay.Spec {
	s := aggregated(engineargs.VLLM)
	p, d := s.Pools[0], s.Pools[0]
	p.Engine.Role, p.Engine.KVBytesPerToken, p.Engine.TransferGBPerSecond = scheduler.Prefill, 100_000, 1
	d.Engine.Role = scheduler.Decode
	s.Pools = replay.TwoPools(p, d)
	return s
}

// draw runs spec and returns its timeline.
func draw(t *testing.T, spec replay.Spec, cut timeline.Options) (*trace, timeline.Counts, *harness.Result) {
	t.Helper()
	var out bytes.Buffer
	w := timeline.New(&out, cut)
	result, err := spec.Run(context.Background(), replay.Streams{Observer: w})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tr := &trace{raw: out.Bytes()}
	if err := tr.read(); err != nil {
		t.Fatal(err)
	}
	return tr, w.Counts(), result
}

// The timeline has the counts of the report.
func TestCountsAreTheReports(t *testing.T) {
	for name, spec := range map[string]replay.Spec{
		"vllm": aggregated(engineargs.VLLM), "sglang": aggregated(engineargs.SGLang), "disaggregated": disaggregated(),
	} {
		t.Run(name, func(t *testing.T) {
			tr, counts, result := draw(t, spec, timeline.Options{})
			passes, tokens, decisions := 0, 0, 0
			for _, e := range tr.Events {
				switch {
				case e.Phase != "X":
				case e.PID == 1:
					decisions++
				default:
					passes += int(e.Args["passes"].(float64))
					tokens += int(e.Args["passes"].(float64) * e.Args["tokens"].(float64))
					if verb, _, _ := strings.Cut(e.Name, " "); verb != "decode" && (verb == "receive") != (e.PID >= 2_000_000) {
						t.Errorf("process %d has a pass %q, want prompts received on decode workers, from 2,000,000, and nowhere else", e.PID, e.Name)
					}
				}
			}
			want := result.Report.OutputTokens
			stages := 1
			if spec.Disaggregated() {
				want += result.Report.Completed // a first token on each prefill worker
				stages = 2
			}
			if tokens != want || counts.OutputTokens != want {
				t.Errorf("%d tokens in slices, %d counted, want %d", tokens, counts.OutputTokens, want)
			}
			if passes != counts.Passes || passes < 100 {
				t.Errorf("%d passes in slices, %d counted, want the same and many", passes, counts.Passes)
			}
			if want := stages * result.Report.Requests; decisions != want || counts.Decisions != want {
				t.Errorf("%d decisions in slices, %d counted, want %d", decisions, counts.Decisions, want)
			}
		})
	}
}

// Every request's arrow leads from its routing decision through its passes to its last pass.
func TestArrows(t *testing.T) {
	tr, _, result := draw(t, disaggregated(), timeline.Options{})
	for id := range result.Report.Requests {
		request, handoff := tr.flow("request", id), tr.flow("handoff", id)
		if !strings.HasPrefix(request, "st") || !strings.HasSuffix(request, "tf") {
			t.Errorf("request %d: arrow %q, want it to start, to pass through and to end", id, request)
		}
		if handoff != "sf" {
			t.Errorf("request %d: handoff %q, want one arrow", id, handoff)
		}
	}
	for key, n := range tr.stops() {
		if n > 1 {
			t.Errorf("request %d: %d steps of its arrow at %v µs of track %d, want one", key.id-1, n, key.ts, key.pid)
		}
	}
}

func TestCut(t *testing.T) {
	spec := aggregated(engineargs.VLLM)
	whole, all, _ := draw(t, spec, timeline.Options{})
	part, some, _ := draw(t, spec, timeline.Options{From: 200, To: 400})
	if some.Passes == 0 || some.Passes >= all.Passes || len(part.Events) >= len(whole.Events) {
		t.Errorf("%d of %d passes, %d of %d events, want some", some.Passes, all.Passes, len(part.Events), len(whole.Events))
	}
	for _, e := range part.Events {
		if e.Phase == "X" && (e.TS+e.Dur < 200_000 || e.TS >= 400_000) {
			t.Errorf("a slice from %v for %v µs, want what touches 200 to 400 ms", e.TS, e.Dur)
		}
	}
	for _, choice := range []timeline.Choice{{ID: 7}, {ID: -1, Line: 7}} {
		one, _, result := draw(t, onTrace(t, spec), timeline.Options{Request: &choice})
		lanes := 0
		for _, e := range one.Events {
			if e.Phase == "b" && strings.HasPrefix(e.Name, "request ") {
				lanes++
			}
		}
		if lanes != 1 || result.Report.Requests < 10 {
			t.Errorf("%+v: %d lanes of %d requests, want 1 of many", choice, lanes, result.Report.Requests)
		}
	}
}

// onTrace returns spec with requests from the lines of a file.
func onTrace(t *testing.T, spec replay.Spec) replay.Spec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":100,"output_length":10,"hash_ids":[%d]}`+"\n", 10*i, i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	spec.Trace = &replay.Trace{Path: path, BlockTokens: 512}
	return spec
}

// trace is a file in the trace event format.
type trace struct {
	Unit   string  `json:"displayTimeUnit"`
	Events []event `json:"traceEvents"`
	raw    []byte
}

type event struct {
	Phase string   `json:"ph"`
	PID   int64    `json:"pid"`
	TID   int64    `json:"tid"`
	TS    float64  `json:"ts"`
	Dur   float64  `json:"dur"`
	ID    int64    `json:"id"`
	Lane  struct { // id of an event of a lane
		Local int64 `json:"local,string"`
	} `json:"id2"`
	Name string         `json:"name"`
	Cat  string         `json:"cat"`
	Bind string         `json:"bp"`
	Args map[string]any `json:"args"`
}

// read checks that the trace follows the documented format.
func (tr *trace) read() error {
	d := json.NewDecoder(bytes.NewReader(tr.raw))
	d.DisallowUnknownFields()
	if err := d.Decode(tr); err != nil {
		return err
	}
	for _, check := range []func() error{tr.checkEvents, tr.checkSlices, tr.checkLanes} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (tr *trace) checkEvents() error {
	for i, e := range tr.Events {
		if !strings.Contains("X M C b e n s t f", e.Phase) || e.PID == 0 || e.Name == "" || e.TS < 0 || e.Dur < 0 {
			return fmt.Errorf("event %d: %+v", i, e)
		}
		lane, arrow := strings.Contains("ben", e.Phase), strings.Contains("stf", e.Phase)
		if lane != (e.Lane.Local != 0) || arrow != (e.ID != 0) || (lane || arrow) && e.Cat == "" {
			return fmt.Errorf("event %d: %+v: want an id and a category", i, e)
		}
		if strings.Contains("MC", e.Phase) && len(e.Args) == 0 {
			return fmt.Errorf("event %d: %+v: want arguments", i, e)
		}
	}
	return nil
}

// checkSlices checks that the slices of a track do not overlap, and that arrows are at slices.
func (tr *trace) checkSlices() error {
	tracks := map[int64][]event{}
	for _, e := range tr.Events {
		if e.Phase == "X" {
			tracks[e.PID] = append(tracks[e.PID], e)
		}
	}
	for pid, slice := range tracks {
		slices.SortStableFunc(slice, func(a, b event) int { return int(math.Round((a.TS - b.TS) * 1000)) })
		for i := 1; i < len(slice); i++ {
			if end := slice[i-1].TS + slice[i-1].Dur; slice[i].TS < end-0.0005 {
				return fmt.Errorf("track %d: a slice begins at %v µs, the one before ends at %v", pid, slice[i].TS, end)
			}
		}
	}
	for _, e := range tr.Events {
		if !strings.Contains("stf", e.Phase) || e.Cat == "" {
			continue
		}
		if !slices.ContainsFunc(tracks[e.PID], func(s event) bool { return s.TS <= e.TS && e.TS <= s.TS+s.Dur }) {
			return fmt.Errorf("an arrow of request %d at %v µs meets no slice of track %d", e.ID-1, e.TS, e.PID)
		}
	}
	return nil
}

// checkLanes reads the events of each lane as Perfetto does: by time, and events with equal times in the order of the
// file. Slices are nested, and only the innermost slice may end. The outermost slice is the request.
func (tr *trace) checkLanes() error {
	events := slices.DeleteFunc(slices.Clone(tr.Events), func(e event) bool { return e.Lane.Local == 0 })
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.TS, b.TS) })
	open := map[int64][]string{}
	for _, e := range events {
		id := e.Lane.Local
		in := open[id]
		switch {
		case e.Phase == "b" && (len(in) == 0) != (e.Name == fmt.Sprint("request ", id-1)):
			return fmt.Errorf("%s begins at %v µs in %q of lane %d, want the request around all else", e.Name, e.TS, in, id)
		case e.Phase == "b":
			open[id] = append(in, e.Name)
		case e.Phase == "e" && (len(in) == 0 || in[len(in)-1] != e.Name):
			return fmt.Errorf("%s ends at %v µs in %q of lane %d, want it innermost", e.Name, e.TS, in, id)
		case e.Phase == "e":
			open[id] = in[:len(in)-1]
		}
	}
	for id, in := range open {
		if len(in) > 0 {
			return fmt.Errorf("%q of lane %d do not end", in, id)
		}
	}
	return nil
}

// flow returns the kinds of the events of a request's arrow, in order.
func (tr *trace) flow(cat string, id int) (kinds string) {
	for _, e := range tr.Events {
		if e.Cat == cat && e.ID == int64(id)+1 && strings.Contains("stf", e.Phase) {
			kinds += e.Phase
		}
	}
	return kinds
}

// stop is a slice that an arrow passes.
type stop struct {
	id, pid int64
	ts      float64
}

// stops counts the arrows at each slice.
func (tr *trace) stops() map[stop]int {
	n := map[stop]int{}
	for _, e := range tr.Events {
		if e.Cat == "request" && e.Phase == "t" {
			n[stop{e.ID, e.PID, e.TS}]++
		}
	}
	return n
}

// Perfetto's trace processor reads the timeline.
func TestPerfettoReadsIt(t *testing.T) {
	const at = "PERFETTO_TRACE_PROCESSOR"
	if name := os.Getenv(at); name != "" {
		if out, err := exec.Command("python3", "testdata/count.py").CombinedOutput(); err != nil {
			t.Fatalf("%s=%s: %v\n%s", at, name, err, out)
		}
	}
	python := optional.Program(t, "python3", "testdata/count.py") // the PyPI package perfetto, which fetches the trace processor
	for name, spec := range map[string]replay.Spec{"aggregated": aggregated(engineargs.VLLM), "disaggregated": disaggregated()} {
		t.Run(name, func(t *testing.T) {
			tr, counts, result := draw(t, spec, timeline.Options{})
			path := filepath.Join(t.TempDir(), "timeline.json")
			if err := os.WriteFile(path, tr.raw, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(python, "testdata/count.py", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			arrows := 0 // from a step or an end to what was before it
			for _, e := range tr.Events {
				if e.Phase == "t" || e.Phase == "f" {
					arrows++
				}
			}
			want := fmt.Sprintf("passes %d tokens %d decisions %d lanes %d arrows %d errors 0\n",
				counts.Passes, counts.OutputTokens, counts.Decisions, result.Report.Requests, arrows)
			if string(out) != want {
				t.Errorf("Perfetto finds %q, want %q", out, want)
			}
		})
	}
}

var _ harness.Observer = (*timeline.Writer)(nil)
