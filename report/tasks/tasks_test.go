package tasks_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/report/tasks"
	"github.com/replay-llm/replay/sim"
)

// studyTrace replays rows of tasks on two workers and returns their study.
func studyTrace(t *testing.T, rows string, mode loadgen.Mode) *tasks.Study {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := replay.Spec{
		Trace: &replay.Trace{Path: path, Format: "tasks", BlockTokens: 64}, Mode: mode, Speedup: 2, MaxInFlight: 3,
		Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 2)},
	}
	var w *loadgen.Workload
	result, err := spec.Run(context.Background(), replay.Streams{Opened: func(opened *loadgen.Workload) { w = opened }})
	if err != nil {
		t.Fatal(err)
	}
	return tasks.Summarize(w, loadgen.Admission{Mode: mode, Speedup: spec.Speedup}, result.Collector)
}

// For any graph, the parts of the hops of a path sum to those of the task, and these to its latency, to the last ns.
// A written study is read back unchanged.
func TestPathsSumToLatency(t *testing.T) {
	for seed := range uint64(60) {
		random := sim.NewRand(seed, "tasks")
		var rows strings.Builder
		n := 1 + random.IntN(25)
		for i := range n {
			fmt.Fprintf(&rows, `{"id":"r%d","session_id":"s%d","timestamp":%v,"input_length":%d,"output_length":%d,"hash_ids":[%d,%d],"delay_ms":%v,"after":[`,
				i, i%3, random.Float64()*300, 65+random.IntN(64), 1+random.IntN(30), random.IntN(3), i, 0)
			separator := ""
			for k := 0; k < 3 && i >= 3; k++ {
				if before := i%3 + 3*random.IntN(i/3); !strings.Contains(rows.String()[strings.LastIndexByte(rows.String(), '\n')+1:], fmt.Sprintf(`{"id":"r%d","delay`, before)) {
					fmt.Fprintf(&rows, `%s{"id":"r%d","delay_ms":%v,"start":%v}`, separator, before, random.Float64()*50, random.IntN(4) == 0)
					separator = ","
				}
			}
			rows.WriteString("]}\n")
		}
		mode := loadgen.Mode(seed % 2)
		s := studyTrace(t, rows.String(), mode)
		if len(s.Tasks) != min(n, 3) {
			t.Fatalf("seed %d: %d tasks, want %d", seed, len(s.Tasks), min(n, 3))
		}
		for i := range s.Tasks {
			checkPath(t, &s.Tasks[i], seed)
		}
		dir := t.TempDir()
		f, err := os.Create(filepath.Join(dir, tasks.FileName))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if again, err := tasks.Read(dir); err != nil || fmt.Sprint(again) != fmt.Sprint(s) {
			t.Fatalf("seed %d: read back %v, %v; want %v", seed, again, err, s)
		}
	}
}

func checkPath(t *testing.T, task *tasks.Task, seed uint64) {
	t.Helper()
	ns := func(ms float64) int64 { return int64(math.Round(ms * 1e6)) }
	sum := func(p *tasks.Parts) int64 {
		return ns(p.Wait) + ns(p.Tool) + ns(p.Queue) + ns(p.Prefill) + ns(p.Decode)
	}
	hops := int64(0)
	for i := range task.Path {
		p := &task.Path[i].Parts
		if hops += sum(p); min(p.Wait, p.Tool, p.Queue, p.Prefill, p.Decode) < 0 {
			t.Errorf("seed %d, task %s: a part of hop %d is below 0: %+v", seed, task.Name, i, p)
		}
	}
	if whole := ns(task.Latency); !task.Finished() || hops != whole || sum(&task.Parts) != whole || whole <= 0 {
		t.Errorf("seed %d, task %s: %d ns, of which hops have %d and parts %d", seed, task.Name, whole, hops, sum(&task.Parts))
	}
}

// A task with known times: the join waits for b, which ends last, and b waits for a. The time of c is not on the
// path. If only the arrival of a request is waited for, the time of its answer is not on the path either.
func TestPathByHand(t *testing.T) {
	row := func(id string, out int, rest string) string {
		return fmt.Sprintf(`{"id":"%s","session_id":"s","input_length":64,"output_length":%d,"hash_ids":[1],%s}`, id, out, rest) + "\n"
	}
	s := studyTrace(t, row("a", 5, `"timestamp":0`)+row("b", 50, `"after":["a"],"delay_ms":20`)+row("c", 5, `"after":["a"],"delay_ms":20`)+row("d", 5, `"after":["b","c"],"delay_ms":4`), loadgen.Trace)
	task := &s.Tasks[0]
	var path []string
	for _, h := range task.Path {
		path = append(path, fmt.Sprintf("%d+%v", h.Line, h.Parts.Tool))
	}
	if got := strings.Join(path, " "); got != "1+0 2+10 4+2" || task.Parts.Tool != 12 || task.Parallel >= 1.2 {
		t.Errorf("path %s, tools %v ms, %v at once; want 1+0 2+10 4+2, 12 ms and about 1", got, task.Parts.Tool, task.Parallel)
	}
	begun := studyTrace(t, row("a", 90, `"timestamp":0`)+row("b", 500, `"after":[{"id":"a","start":true,"delay_ms":6}]`), loadgen.Trace).Tasks[0]
	if first := begun.Path[0]; !first.Begun || first.Parts.Decode != 0 || begun.Path[1].Parts.Tool != 3 {
		t.Errorf("path %+v, want a hop that is only begun, and 3 ms after it", begun.Path)
	}
}

// Sessions in which each turn waits only for the previous turn are no tasks.
func TestSessionsAreNoTasks(t *testing.T) {
	if s := tasks.Summarize(&loadgen.Workload{}, loadgen.Admission{}, nil); s != nil {
		t.Errorf("%v, want none", s)
	}
}
