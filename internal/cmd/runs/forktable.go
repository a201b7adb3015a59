package runs

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// asItWas is the name of the future without changes.
const asItWas = "as it was"

// forkTable has the results of all futures of a fork.
type forkTable struct {
	At      sim.Time `json:"at_ms"`
	at      string   // text of the flag --at
	Futures []future `json:"futures"`
}

// future is the result of a future.
type future struct {
	Name  string    `json:"name"`
	After latencies `json:"arrive_after"` // requests that arrive after the time At
	All   latencies `json:"all"`
	// Assumptions has the assumptions of the future. Assumptions is empty if the replay repeats the results of the
	// reference.
	Assumptions map[string]string `json:"assumptions,omitempty"`
	assumed     []engines.Assumption
}

// latencies has the counts and latencies of a set of requests.
type latencies struct {
	Requests  int     `json:"requests"`
	Completed int     `json:"completed"`
	MeanTTFT  float64 `json:"mean_ttft_ms"`
	P99TTFT   float64 `json:"p99_ttft_ms"`
	MeanTPOT  float64 `json:"mean_tpot_ms"`
	P99TPOT   float64 `json:"p99_tpot_ms"`
	MeanE2E   float64 `json:"mean_e2e_latency_ms"`
	P99E2E    float64 `json:"p99_e2e_latency_ms"`
}

// nameOf returns settings in the format of the command line.
func nameOf(settings []plan.Setting) string {
	var parts []string
	for _, s := range settings {
		parts = append(parts, s.Name+"="+s.Value)
	}
	return strings.Join(parts, ",")
}

// fill adds the latencies of a replay.
func (f *future) fill(records []collector.Record, at sim.Time) {
	f.All, f.After = describeFrom(records, -1), describeFrom(records, at)
}

// assume adds the assumptions of a future with the given settings.
func (f *future) assume(spec *replay.Spec) {
	if spec.Compat {
		return
	}
	last := &spec.Topology
	for i := range spec.Changes {
		last = last.With(&spec.Changes[i])
	}
	f.assumed = last.Assumptions()
	f.Assumptions = AssumptionsByKey(f.assumed)
}

// describeFrom returns the latencies of the requests that arrive after a time.
func describeFrom(records []collector.Record, at sim.Time) latencies {
	var ttft, tpot, e2e []float64
	l := latencies{}
	for i := range records {
		r := &records[i]
		if r.Arrival <= at {
			continue
		}
		l.Requests++
		if !r.Counted() {
			continue
		}
		if r.Tokens == r.OutputTokens {
			l.Completed++
		}
		ttft, e2e = append(ttft, float64(r.TTFT())), append(e2e, float64(r.E2E()))
		if r.Tokens > 1 {
			tpot = append(tpot, float64(r.TPOT()))
		}
	}
	d := collector.Describe(ttft)
	l.MeanTTFT, l.P99TTFT = d.Mean, d.P99
	d = collector.Describe(tpot)
	l.MeanTPOT, l.P99TPOT = d.Mean, d.P99
	d = collector.Describe(e2e)
	l.MeanE2E, l.P99E2E = d.Mean, d.P99
	return l
}

// nameWidth is the width of the name column, in characters.
const nameWidth = 22

// write prints the table.
func (t *forkTable) write(w io.Writer) error {
	var b strings.Builder
	for _, part := range []struct {
		title string
		of    func(*future) *latencies
	}{
		{"Requests that arrive after " + t.at, func(f *future) *latencies { return &f.After }},
		{"All requests", func(f *future) *latencies { return &f.All }},
	} {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n%-*s%9s%8s%8s%8s%8s%9s%8s\n", part.title, nameWidth, "ms", "completed", "TTFT", "p99", "TPOT", "p99", "E2E", "p99")
		for i := range t.Futures {
			f := &t.Futures[i]
			l := part.of(f)
			name := f.Name
			if len(name) >= nameWidth {
				b.WriteString(name + "\n")
				name = ""
			}
			fmt.Fprintf(&b, "%-*s%9d%8.2f%8.1f%8.2f%8.2f%9.1f%8.0f\n", nameWidth, name, l.Completed, l.MeanTTFT, l.P99TTFT, l.MeanTPOT, l.P99TPOT, l.MeanE2E, l.P99E2E)
		}
	}
	replays := make([]Assumed, len(t.Futures))
	for i := range t.Futures {
		replays[i] = Assumed{t.Futures[i].Name, t.Futures[i].assumed}
	}
	_, err := io.WriteString(w, b.String())
	return cmp.Or(err, PrintAssumptions(w, MergeAssumptions("", replays)))
}
