package html

import (
	"strings"

	"github.com/replay-llm/replay/report/classes"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/slo"
)

// class is the result of the requests of a class.
type class struct {
	Name      string            `json:"name"`
	Requests  int               `json:"requests"`
	Completed int               `json:"completed"`
	Speed     float64           `json:"speed"` // answer tokens per second of the time in the cluster
	Met       *float64          `json:"met"`   // share of requests that met the objectives; nil: no objectives
	Curves    map[string]*curve `json:"curves"`
}

// listClasses returns the classes of a run, in the order of its report.
func listClasses(r *Run) []class {
	names, _ := r.Report.Values()[slo.ClassesKey].(string)
	if names == "" || len(r.Rows) == 0 {
		return nil
	}
	of := map[string][]requests.Row{}
	for i := range r.Rows {
		of[r.Rows[i].Class] = append(of[r.Rows[i].Class], r.Rows[i])
	}
	var all []class
	for _, c := range classes.Summarize(strings.Split(names, ","), r.Rows, r.Report.DurationMS).Classes {
		one := class{Name: c.Name, Requests: c.Requests, Completed: c.Completed, Speed: roundDigits(c.Speed), Curves: map[string]*curve{}}
		if c.Judged {
			one.Met = &c.Attainment
		}
		for _, name := range []string{"ttft", "tpot", "e2e"} {
			one.Curves[name] = ofRows(of[c.Name], valueOf(name))
		}
		all = append(all, one)
	}
	return all
}
