package regret

import (
	"io"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// Study holds the results of all choices at a sample of decisions.
type Study struct {
	Routed    int // decisions of the replay
	Workers   int
	Horizon   sim.Time
	Decisions []Decision // of the sample, as they were made
}

// Measure is a latency by which choices are compared; smaller is better.
type Measure int

const (
	OwnTTFT Measure = iota
	OwnE2E
	AllTTFT
	AllE2E
	measures
)

// key returns the name of the measure in files.
func (m Measure) key() string {
	return [...]string{"own_ttft", "own_e2e", "all_ttft", "all_e2e"}[m]
}

// Of returns the measure of an outcome.
func (m Measure) Of(o *Outcome) sim.Time {
	return [...]sim.Time{o.TTFT, o.E2E, o.AllTTFT, o.AllE2E}[m]
}

// noise is the maximum rounding error of a difference, in ms: late times in a replay have no more digits.
const noise sim.Time = 1e-6

// Best returns the worker with the smallest value. If the chosen worker has the smallest value, Best returns it;
// otherwise the first worker with this value.
func (d *Decision) Best(m Measure) sim.WorkerID {
	best := 0
	for w := range d.Outcomes {
		if m.Of(&d.Outcomes[w]) < m.Of(&d.Outcomes[best]) {
			best = w
		}
	}
	if m.Of(&d.Outcomes[d.Chosen])-m.Of(&d.Outcomes[best]) < noise {
		return d.Chosen
	}
	return sim.WorkerID(best)
}

// Regret returns the value of the chosen worker minus the value of the best worker; 0 if the chosen worker is the
// best.
func (d *Decision) Regret(m Measure) sim.Time {
	return m.Of(&d.Outcomes[d.Chosen]) - m.Of(&d.Outcomes[d.Best(m)])
}

// Loss is the advantage of the worker with the smallest TTFT over the chosen worker.
type Loss int

const (
	MoreCached    Loss = iota // more of the prompt
	FewerRequests             // running and waiting
	Both
	Neither
	losses
)

func (l Loss) String() string {
	return [...]string{"more of the prompt cached", "fewer requests", "both", "neither"}[l]
}

// key returns the name in files.
func (l Loss) key() string { return [...]string{"more_cached", "fewer_requests", "both", "neither"}[l] }

// LostTo returns the advantage of the worker with the smallest TTFT over the chosen worker. LostTo is meaningful only
// if another worker is the best.
func (d *Decision) LostTo() Loss {
	chosen, best := &d.Outcomes[d.Chosen], &d.Outcomes[d.Best(OwnTTFT)]
	cached := best.Cached > chosen.Cached
	fewer := best.Running+best.Waiting < chosen.Running+chosen.Waiting
	switch {
	case cached && fewer:
		return Both
	case cached:
		return MoreCached
	case fewer:
		return FewerRequests
	}
	return Neither
}

// sum holds the sums of a measure over all decisions of the sample.
type sum struct {
	best int // decisions than which no other was better
	is   collector.Distribution
}

func (s *Study) sumUp(m Measure) sum {
	var t sum
	all := make([]float64, len(s.Decisions))
	for i := range s.Decisions {
		d := &s.Decisions[i]
		all[i] = float64(d.Regret(m))
		if d.Best(m) == d.Chosen {
			t.best++
		}
	}
	t.is = collector.Describe(all)
	return t
}

// lost holds the number of decisions that lost TTFT for one reason, and the mean loss.
type lost struct {
	decisions int
	mean      float64
}

func (s *Study) countLosses() (all [losses]lost) {
	for i := range s.Decisions {
		if d := &s.Decisions[i]; d.Best(OwnTTFT) != d.Chosen {
			l := &all[d.LostTo()]
			l.decisions++
			l.mean += float64(d.Regret(OwnTTFT))
		}
	}
	for i := range all {
		all[i].mean /= float64(max(all[i].decisions, 1))
	}
	return all
}

// Fields returns the report values of the study.
func (s *Study) Fields() []collector.Field {
	fields := []collector.Field{
		collector.Of("decisions", len(s.Decisions)), collector.Of("routed", s.Routed),
		collector.Of("workers", s.Workers), collector.Of("horizon_ms", float64(s.Horizon)),
	}
	for m := range measures {
		t := s.sumUp(m)
		fields = append(fields, collector.Of(m.key(), []collector.Field{
			collector.Of("best_decisions", t.best), collector.Of("mean_ms", t.is.Mean), collector.Of("p99_ms", t.is.P99), collector.Of("max_ms", t.is.Max),
		}))
	}
	var lostTo []collector.Field
	for i, l := range s.countLosses() {
		lostTo = append(lostTo, collector.Of(Loss(i).key(), []collector.Field{
			collector.Of("decisions", l.decisions), collector.Of("mean_ms", l.mean),
		}))
	}
	return []collector.Field{collector.Of("regret", append(fields, collector.Of("lost_to", lostTo)))}
}

// FileName is the name of the file in a run directory.
const FileName = "regret.jsonl"

// row is a decision in the file.
type row struct {
	Request  sim.RequestID           `json:"request"`
	Session  string                  `json:"session"`
	Line     int32                   `json:"line,omitempty"`
	At       sim.Time                `json:"at_ms"`
	Chosen   sim.WorkerID            `json:"chosen"`
	Best     map[string]sim.WorkerID `json:"best"` // JSON has the keys in order
	Regret   map[string]sim.Time     `json:"regret_ms"`
	LostTo   string                  `json:"lost_to,omitempty"`
	Requests int                     `json:"requests"`
	Workers  []worker                `json:"workers"`
}

// worker is an outcome in the file.
type worker struct {
	Worker  sim.WorkerID `json:"worker"`
	Running int          `json:"running"`
	Waiting int          `json:"waiting"`
	Cached  int          `json:"cached_tokens"`
	TTFT    sim.Time     `json:"ttft_ms"`
	E2E     sim.Time     `json:"e2e_ms"`
	AllTTFT sim.Time     `json:"all_ttft_ms"`
	AllE2E  sim.Time     `json:"all_e2e_ms"`
}

// Write writes a line of JSON for each decision, with the result of each worker.
func (s *Study) Write(out io.Writer, w *loadgen.Workload) error {
	e := json.NewEncoder(out)
	for i := range s.Decisions {
		d := &s.Decisions[i]
		r := row{
			Request: d.Request, Session: w.SessionID(int(d.Session)), Line: d.Line, At: d.At, Chosen: d.Chosen,
			Best: map[string]sim.WorkerID{}, Regret: map[string]sim.Time{}, Requests: d.Affected,
		}
		for m := range measures {
			r.Best[m.key()], r.Regret[m.key()] = d.Best(m), d.Regret(m)
		}
		if d.Best(OwnTTFT) != d.Chosen {
			r.LostTo = d.LostTo().key()
		}
		for id, o := range d.Outcomes {
			r.Workers = append(r.Workers, worker{sim.WorkerID(id), o.Running, o.Waiting, o.Cached, o.TTFT, o.E2E, o.AllTTFT, o.AllE2E})
		}
		if err := e.Encode(&r); err != nil {
			return err
		}
	}
	return nil
}
