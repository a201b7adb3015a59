package runs

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
)

// scalingFile is what a run directory calls what an autoscaler did.
const scalingFile = "scaling.json"

// writeScaling writes what an autoscaler did, as scalingFile holds it.
func writeScaling(w io.Writer, all []*harness.Scaling) error {
	type act struct {
		Pool string  `json:"pool,omitempty"`
		At   float64 `json:"at_ms"`
		From int     `json:"from"`
		To   int     `json:"to"`
	}
	type size struct {
		Pool     string  `json:"pool,omitempty"`
		At       float64 `json:"at_ms"`
		Ready    int     `json:"ready"`
		Starting int     `json:"starting"`
		Leaving  int     `json:"leaving"`
	}
	file := struct {
		Acts    []act  `json:"acts"`
		Workers []size `json:"workers"`
	}{[]act{}, []size{}}
	for _, s := range all {
		pool := s.Stage.String()
		if s.Stage == scheduler.Aggregated {
			pool = ""
		}
		for _, a := range s.Acts {
			file.Acts = append(file.Acts, act{pool, float64(a.At), a.From, a.To})
		}
		for _, z := range s.Sizes {
			file.Workers = append(file.Workers, size{pool, float64(z.At), z.Ready, z.Starting, z.Leaving})
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(file)
}

// mostActs is how many acts of an autoscaler are told below a report.
const mostActs = 8

// addScaling adds a line or two about each autoscaler to those below the report.
func (r *run) addScaling() {
	for _, s := range r.result.Scaling {
		hours, least, mean, most := s.WorkerHours()
		text := fmt.Sprintf("%s: %d to %d, %.2f on average; %.2f worker-hours", s.Name(), least, most, mean, hours)
		if cost := s.Cost(hours); cost > 0 {
			text += fmt.Sprintf(", which cost %.2f", cost)
		}
		r.lines = append(r.lines, terminal.WrapLine(text, 4))
		var acts []string
		for i, a := range s.Acts {
			if i == mostActs && len(s.Acts) > mostActs+1 {
				acts = append(acts, fmt.Sprintf("and %d more", len(s.Acts)-i))
				break
			}
			acts = append(acts, fmt.Sprintf("%d to %d at %gs", a.From, a.To, float64(a.At)/1000))
		}
		if len(acts) > 0 {
			r.lines = append(r.lines, terminal.WrapLine("Scaling: "+strings.Join(acts, ", "), 4))
		}
	}
}
