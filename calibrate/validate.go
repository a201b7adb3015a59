package calibrate

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/timing"
)

// AddWay adds the times of a profile between client and engine to the times of later replays. AddWay applies only if
// a client measured the run.
func (m *Measured) AddWay(w *timing.Way) {
	if w == nil || !m.Client {
		return
	}
	m.way = *w
	m.Settings.Notes = slices.DeleteFunc(m.Settings.Notes, func(n string) bool { return n == measured.WayNotTold })
	m.Settings.AddNote("times are those of a client: %.1f ms before the first token and %.3f ms per further one are added, as the profile has them", 1000*w.First, 1000*w.Token)
}

// freshTokens is the number of tokens per id if prompts have no common prefixes.
const freshTokens = 512

// WriteTrace writes the requests at their arrivals as a Mooncake trace. WriteTrace returns the number of tokens per
// id. Without prompts, no two requests have a common prefix.
func (m *Measured) WriteTrace(w io.Writer, p *measured.Prompts) (blockTokens int, err error) {
	blockTokens = freshTokens
	if p != nil {
		blockTokens = p.BlockTokens
		if err := p.Check(m.Requests); err != nil {
			return 0, err
		}
	}
	out := bufio.NewWriter(w)
	lines, next := json.NewEncoder(out), uint64(0)
	for i := range m.Requests {
		r := &m.Requests[i]
		var ids []uint64
		if p == nil {
			for k := 0; k < r.Input; k += freshTokens {
				ids = append(ids, next)
				next++
			}
		} else {
			ids = p.IDs[r.Place]
		}
		line := map[string]any{"timestamp": 1000 * r.Arrival, "input_length": r.Input, "output_length": r.Output, "hash_ids": ids}
		m.addLane(line, r)
		if r.Class != "" {
			line["priority"] = priorityOf(r.Class)
		}
		if err := lines.Encode(line); err != nil {
			return 0, err
		}
	}
	return blockTokens, out.Flush()
}

// priorityOf returns the priority of a class of service. The most urgent class has the least number.
func priorityOf(class string) int {
	switch class {
	case "critical":
		return 0
	case "sheddable", "batch", "background":
		return 2
	}
	return 1
}

// Judged holds the errors of a replay for one set of requests.
type Judged struct {
	Set    string   `json:"judged_on"`
	Errors []Errors `json:"errors"` // by metric
}

// Judge compares a replay of the whole run, by its trace, with the measurements. Judge judges all requests and, if
// known, the requests that were admitted at once and the rest separately.
func (m *Measured) Judge(result *harness.Result) ([]Judged, error) {
	out, err := m.outcomeOf(result)
	if err != nil {
		return nil, err
	}
	if m.Untimed {
		return m.judgeCounted(result)
	}
	parts, _ := splitParts(m, 0)
	all := Judged{m.nameAll(), judgeOutcome(m, parts[0].chosen, out)}
	var gaps []float64
	for i := range m.Requests {
		gaps = append(gaps, m.Requests[i].Gaps...)
	}
	if len(gaps) > 0 {
		all.Errors = append(all.Errors, judgeGaps(gaps, &result.Report.ITL, &all.Errors[1]))
	}
	sets := []Judged{all}
	if warm := parts[0].withoutWarmUp(m); m.Client && len(warm) < len(parts[0].chosen) {
		sets = append(sets, Judged{fmt.Sprintf("all from %d s on", measured.ClientWarmUp), judgeOutcome(m, warm, out)})
	}
	if warm := parts[0].withoutWarmUp(m); m.Client {
		if s := m.slowdownOf(warm, out); s.more > 0 {
			sets = append(sets, Judged{"all but " + s.String(), judgeOutcome(m, s.exclude(m, parts[0].chosen), out)})
		}
	}
	for _, class := range m.classes() {
		sets = append(sets, Judged{class, judgeOutcome(m, m.ofClass(class), out)})
	}
	s := splitBySaturation(m, out)
	if len(s.quick) > 0 && len(s.slow) > 0 {
		sets = append(sets, Judged{s.nameOf("at once"), judgeOutcome(m, s.quick, out)}, Judged{s.nameOf("queued"), judgeOutcome(m, s.slow, out)})
	}
	return sets, nil
}

// classes returns the classes of service of the requests, or none if there is only one.
func (m *Measured) classes() []string {
	var all []string
	for i := m.judgedFrom(); i < len(m.Requests); i++ {
		if class := m.Requests[i].Class; !slices.Contains(all, class) {
			all = append(all, class)
		}
	}
	slices.Sort(all)
	if len(all) < 2 {
		return nil
	}
	return all
}

// ofClass returns the requests of a class.
func (m *Measured) ofClass(class string) (chosen []int) {
	for i := m.judgedFrom(); i < len(m.Requests); i++ {
		if m.Requests[i].Class == class && !m.Requests[i].Cut {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// judgeGaps compares the times between tokens, of all requests together. The error of single requests is that of
// TPOT, since TPOT is the mean of a request's gaps.
func judgeGaps(gaps []float64, simulated *collector.Distribution, tpot *Errors) Errors {
	is := collector.Describe(gaps)
	off := func(ms, s float64) float64 { return ms/1000/s - 1 }
	return Errors{
		Metric: "ITL", Requests: tpot.Requests, Measured: is.Mean, Mean: off(simulated.Mean, is.Mean), P50: off(simulated.Median, is.Median),
		P90: off(simulated.P90, is.P90), P99: off(simulated.P99, is.P99), Each: tpot.Each,
	}
}

// FurthestMean returns the errors of the metric with the largest error of its mean over all requests.
func FurthestMean(sets []Judged) Errors {
	var worst Errors
	for _, e := range sets[0].Errors {
		if !(math.Abs(e.Mean) <= math.Abs(worst.Mean)) {
			worst = e
		}
	}
	return worst
}
