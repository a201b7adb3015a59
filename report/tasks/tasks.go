// Package tasks reports the latency of the tasks of a run, and the critical path of each task. docs/explain.md
// defines both.
//
// Read tasks.go, then path.go and text.go; file.go stores them in a run directory.
package tasks

import (
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// Task is the result of a task. Times are in ms of the logical clock, in whole ns.
type Task struct {
	Name      string  `json:"task"`
	Requests  int     `json:"requests"`    // in the workload
	Completed int     `json:"completed"`   // with all their tokens
	Start     float64 `json:"start_ms"`    // time of the first arrival
	Latency   float64 `json:"latency_ms"`  // time from Start to the last token; 0 if a request is not completed
	Parallel  float64 `json:"parallelism"` // requests in the cluster on average, while the task lasts
	Parts     Parts   `json:"path_ms"`     // sums over the hops
	Path      []Hop   `json:"path"`        // from the first arrival to the last token
	// Outside reports whether the task began outside the window of the report.
	Outside bool `json:"outside_window,omitempty"`
}

// Finished reports whether all requests of the task are completed.
func (t *Task) Finished() bool { return t.Completed == t.Requests }

// Parts divides the time of a path. The parts sum to the latency of the task.
type Parts struct {
	Wait    float64 `json:"wait"`    // until the arrival of the request: its own time, or a free slot in closed loop
	Tool    float64 `json:"tool"`    // delays after the previous requests
	Queue   float64 `json:"queue"`   // from arrival to admission
	Prefill float64 `json:"prefill"` // admission to first token
	Decode  float64 `json:"decode"`  // from first to last token
}

// Hop is a request on a path.
type Hop struct {
	Request int `json:"request"` // its id
	Line    int `json:"line"`    // line of the trace; 0: none
	// Begun reports whether the next hop waited only for the arrival of this hop.
	Begun bool  `json:"begun,omitempty"`
	Parts Parts `json:"ms"`
}

// Study holds the results of all tasks of a run, in order of the workload.
type Study struct {
	Tasks []Task `json:"tasks"`
}

// Summarize returns the results of the tasks of w in a run with admission a; nil if w has no tasks.
func Summarize(w *loadgen.Workload, a loadgen.Admission, c *collector.Collector) *Study {
	if w == nil || w.Graph == nil {
		return nil
	}
	p := newPather(w, a, c.Records())
	s := &Study{Tasks: make([]Task, 0, len(w.Sessions))}
	for i := range w.Sessions {
		if w.Rounds > 0 && !p.hasBegun(int32(i)) {
			continue // the rounds end with the window
		}
		t := p.describeTask(int32(i))
		t.Outside = !c.Window().Holds(sim.Time(t.Start))
		s.Tasks = append(s.Tasks, t)
	}
	return s
}

// Fields returns the report values of the study.
func (s *Study) Fields() []collector.Field {
	var latencies []float64
	var sum Parts
	parallel, all := 0.0, 0
	for i := range s.Tasks {
		if s.Tasks[i].Outside {
			continue
		}
		all++
		if t := &s.Tasks[i]; t.Finished() {
			latencies = append(latencies, t.Latency)
			sum.add(&t.Parts)
			parallel += t.Parallel
		}
	}
	n := float64(max(len(latencies), 1))
	fields := []collector.Field{collector.Of("tasks", all), collector.Of("completed_tasks", len(latencies))}
	d := collector.Describe(latencies)
	for _, f := range []struct {
		key   string
		value float64
	}{
		{"mean_task_latency_ms", d.Mean}, {"median_task_latency_ms", d.Median}, {"p90_task_latency_ms", d.P90},
		{"p99_task_latency_ms", d.P99}, {"max_task_latency_ms", d.Max},
		{"mean_task_wait_ms", sum.Wait / n}, {"mean_task_tool_ms", sum.Tool / n}, {"mean_task_queue_ms", sum.Queue / n},
		{"mean_task_prefill_ms", sum.Prefill / n}, {"mean_task_decode_ms", sum.Decode / n}, {"mean_task_parallelism", parallel / n},
	} {
		fields = append(fields, collector.Of(f.key, f.value))
	}
	return fields
}

func (p *Parts) add(o *Parts) {
	p.Wait += o.Wait
	p.Tool += o.Tool
	p.Queue += o.Queue
	p.Prefill += o.Prefill
	p.Decode += o.Decode
}
