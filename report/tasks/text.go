package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/internal/terminal"
)

// Lines returns the study as text, in 80 columns.
func (s *Study) Lines() []string {
	v := map[string]any{}
	for _, f := range s.Fields() {
		v[f.Key] = f.Value()
	}
	n, all := v["completed_tasks"].(int), v["tasks"].(int)
	count := fmt.Sprint(n)
	if n < all {
		count = fmt.Sprintf("%d of %d completed", n, all)
	}
	ms := func(key string) string { return fmt.Sprintf("%.1f", v[key].(float64)) }
	lines := []string{
		fmt.Sprintf("Tasks: %s; latency %s ms on average, p50 %s, p90 %s, p99 %s", count, ms("mean_task_latency_ms"),
			ms("median_task_latency_ms"), ms("p90_task_latency_ms"), ms("p99_task_latency_ms")),
		fmt.Sprintf("Critical path of a task: tools %s ms, queue %s, prefill %s, decode %s, waits %s; %.2f requests at once", ms("mean_task_tool_ms"),
			ms("mean_task_queue_ms"), ms("mean_task_prefill_ms"), ms("mean_task_decode_ms"), ms("mean_task_wait_ms"), v["mean_task_parallelism"]),
	}
	for i := range lines {
		lines[i] = terminal.WrapLine(lines[i], 6)
	}
	return lines
}

// Find returns the task with this name. For "slowest" it returns the task with the largest latency.
func (s *Study) Find(name string) (*Task, error) {
	if name == "slowest" {
		if all := s.Slowest(1); len(all) > 0 {
			return all[0], nil
		}
		return nil, errors.New("no task of the run is completed")
	}
	i := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.Name == name })
	if i < 0 {
		names := make([]string, len(s.Tasks))
		for k := range s.Tasks {
			names[k] = s.Tasks[k].Name
		}
		return nil, excerpt.Errorf("task is %q, must be the name of one of the run's %d tasks, or slowest%s", name, len(names), nearest.Ask(name, names))
	}
	return &s.Tasks[i], nil
}

// WriteText writes the critical path of a task, hop by hop. about, if not nil, returns additional text on a request.
func (t *Task) WriteText(w io.Writer, about func(request int) string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "task %s: %d requests", t.Name, t.Requests)
	if !t.Finished() {
		fmt.Fprintf(&b, ", of which %d are completed\n", t.Completed)
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, ", %.3f ms from %.3f on, %.2f at once\n\n", t.Latency, t.Start, t.Parallel)
	fmt.Fprintf(&b, "%-20s %10s %10s %10s %10s %10s\n", "critical path, ms", "wait", "tool", "queue", "prefill", "decode")
	row := func(name string, p *Parts) {
		fmt.Fprintf(&b, "%-20s %10.3f %10.3f %10.3f %10.3f %10.3f\n", name, p.Wait, p.Tool, p.Queue, p.Prefill, p.Decode)
	}
	for i := range t.Path {
		h := &t.Path[i]
		name := fmt.Sprintf("request %d", h.Request)
		if h.Line > 0 {
			name += fmt.Sprintf(" (:%d)", h.Line)
		}
		row(name, &h.Parts)
		if about != nil {
			if text := about(h.Request); text != "" && !h.Begun {
				b.WriteString(terminal.WrapLine("  "+text, 4) + "\n")
			}
		}
	}
	row("all", &t.Parts)
	_, err := io.WriteString(w, b.String())
	return err
}

// Slowest returns the n tasks with the largest latency, the slowest first.
func (s *Study) Slowest(n int) []*Task {
	var all []*Task
	for i := range s.Tasks {
		if s.Tasks[i].Finished() {
			all = append(all, &s.Tasks[i])
		}
	}
	stable.Sort(all, func(a, b *Task) int { return cmp.Compare(b.Latency, a.Latency) })
	return all[:min(n, len(all))]
}
