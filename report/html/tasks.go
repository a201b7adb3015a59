package html

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/report/tasks"
)

// tasked holds the durations of the tasks of a run.
type tasked struct {
	Tasks     int        `json:"tasks"`
	Completed int        `json:"completed"`
	Slowest   []slowTask `json:"slowest"`
}

// slowTask is one of the slowest tasks. Times are in ms.
type slowTask struct {
	Name     string     `json:"name"`
	Requests int        `json:"requests"`
	Start    float64    `json:"start"`
	Latency  float64    `json:"latency"`
	Parallel float64    `json:"parallel"`
	Parts    [5]float64 `json:"parts"` // of the critical path: wait, tool, queue, prefill, decode
	Hops     int        `json:"hops"`
	Longest  []held     `json:"longest"` // of the hops
}

// newTasked returns the data of a run's tasks for the page.
func newTasked(s *tasks.Study) *tasked {
	out := &tasked{Tasks: len(s.Tasks), Slowest: []slowTask{}}
	for i := range s.Tasks {
		if s.Tasks[i].Finished() {
			out.Completed++
		}
	}
	for _, t := range s.Slowest(slowest) {
		one := slowTask{
			Name: t.Name, Requests: t.Requests, Start: roundDigits(t.Start), Latency: roundDigits(t.Latency),
			Parallel: roundDigits(t.Parallel), Hops: len(t.Path), Parts: listParts(&t.Parts),
		}
		for _, h := range longestHops(t.Path) {
			title := fmt.Sprintf("request %d", h.Request)
			if h.Line > 0 {
				title += fmt.Sprintf(" (:%d)", h.Line)
			}
			one.Longest = append(one.Longest, held{title, roundDigits(lengthOf(&h))})
		}
		out.Slowest = append(out.Slowest, one)
	}
	return out
}

// listParts returns the parts in the order of the page.
func listParts(p *tasks.Parts) [5]float64 {
	return [5]float64{roundDigits(p.Wait), roundDigits(p.Tool), roundDigits(p.Queue), roundDigits(p.Prefill), roundDigits(p.Decode)}
}

// lengthOf returns the duration of a hop in ms.
func lengthOf(h *tasks.Hop) float64 {
	return h.Parts.Wait + h.Parts.Tool + h.Parts.Queue + h.Parts.Prefill + h.Parts.Decode
}

// longestHops returns the longest hops of a path, the longest first. Equal hops keep their order.
func longestHops(path []tasks.Hop) []tasks.Hop {
	sorted := slices.Clone(path)
	stable.Sort(sorted, func(a, b tasks.Hop) int { return cmp.Compare(lengthOf(&b), lengthOf(&a)) })
	return sorted[:min(holders, len(sorted))]
}
