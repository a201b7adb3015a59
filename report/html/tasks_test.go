package html

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/report/tasks"
)

// taskedRun returns a run of 20 tasks. Each task is slower than the one before it, and the first task is not
// completed.
func taskedRun() Run {
	r := made(400, 4)
	s := &tasks.Study{}
	for i := range 20 {
		ms := float64(i)
		t := tasks.Task{Name: fmt.Sprint("t", i), Requests: 5, Completed: 5, Start: 10 * ms, Latency: 3000 + 2*ms, Parallel: 1.25}
		t.Path = []tasks.Hop{
			{Request: 100 + i, Line: 0, Parts: tasks.Parts{Prefill: 40, Decode: 60}},
			{Request: i, Line: i + 1, Parts: tasks.Parts{Tool: 1900 + ms, Queue: 1, Prefill: 50, Decode: 49 + ms}},
			{Request: 200 + i, Line: i + 2, Parts: tasks.Parts{Wait: 100, Decode: 600}},
			{Request: 300 + i, Line: i + 3, Parts: tasks.Parts{Decode: 200}},
		}
		t.Parts = tasks.Parts{Wait: 100, Tool: 1900 + ms, Queue: 1, Prefill: 90, Decode: 909 + ms}
		s.Tasks = append(s.Tasks, t)
	}
	s.Tasks[0].Completed, s.Tasks[0].Latency, s.Tasks[0].Path = 4, 0, nil
	s.Tasks[18].Name = "t</script>"
	r.Tasks = s
	return r
}

// The page has the slowest tasks, the slowest first. Each has the parts of its critical path, which sum to the
// latency, and its longest hops. A task that is not completed is only counted.
func TestTasked(t *testing.T) {
	r := taskedRun()
	x := newTasked(r.Tasks)
	if x.Tasks != 20 || x.Completed != 19 || len(x.Slowest) != slowest {
		t.Fatalf("%+v", x)
	}
	for i, one := range x.Slowest {
		sum := 0.0
		for _, ms := range one.Parts {
			sum += ms
		}
		if want := 3000 + 2*float64(19-i); one.Latency != want || sum != want {
			t.Errorf("task %d takes %v ms with parts of %v, want %v", i, one.Latency, sum, want)
		}
	}
	want := "[{request 19 (:20) 2038} {request 219 (:21) 700} {request 319 (:22) 200}]"
	if got := fmt.Sprint(x.Slowest[0].Longest); got != want || x.Slowest[0].Hops != 4 {
		t.Errorf("the longest hops are %s of %d, want %s of 4", got, x.Slowest[0].Hops, want)
	}
	text := written(t, r)
	if strings.Contains(text, `"t</script>"`) || !strings.Contains(text, `"slowest":[{"name":"t19"`) || !strings.Contains(text, "drawTasks(runs, section, several);") {
		t.Error("the page does not have the tasks, or a name that ends its script")
	}
	if text := written(t, made(20, 2)); strings.Contains(text, `"tasks":{`) {
		t.Error("a run without tasks has some on its page")
	}
}
