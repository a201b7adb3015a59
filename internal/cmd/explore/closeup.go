package explore

import (
	"bytes"
	"cmp"
	"context"
	"sort"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/explain"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Request explains the latency of one request of a run, in the format of replay explain.
func (s *Session) Request(ctx context.Context, settings Settings, name string) (string, error) {
	r, err := s.prepare(settings)
	if err != nil {
		return "", err
	}
	work := new(ledger.Log)
	book, err := runs.NewBook(&r.spec, work)
	if err != nil {
		return "", err
	}
	book.Grow(len(r.workload.Turns))
	if err := r.replay(ctx, book); err != nil {
		return "", err
	}
	x := explain.Run{Trace: r.trace.name, Rows: requests.Collect(r.result.Collector, runs.PlacesIn(r.workload), nil, book), Log: work}
	id, err := x.Find(name)
	if err != nil {
		return "", cli.WrongUsage(err)
	}
	var text bytes.Buffer
	err = x.WriteText(&text, id)
	return text.String(), err
}

// mostPasses is the maximum number of passes in an answer.
const mostPasses = 500

// oneWorker records the passes of one worker.
type oneWorker struct {
	harness.NoObserver
	log   passes.Log
	stage int
	id    sim.WorkerID
	from  sim.Time
}

// Pass records a pass if it belongs to the worker.
func (w *oneWorker) Pass(stage scheduler.Role, id sim.WorkerID, p *scheduler.Pass) {
	if stage.Stage() == w.stage && id == w.id && p.End > w.from && len(w.log.Passes) < mostPasses {
		w.log.Pass(stage, id, p)
	}
}

// Worker selects a worker of a run, and the time from which passes are returned.
type Worker struct {
	Stage  int     `json:"stage"` // 0; with a prefill stage, 1 for decode workers
	ID     int     `json:"worker"`
	FromMS float64 `json:"from_ms"`
}

// Passes returns the first passes of a worker that end after want.FromMS.
func (s *Session) Passes(ctx context.Context, settings Settings, want Worker) ([]passes.Pass, error) {
	r, err := s.prepare(settings)
	if err != nil {
		return nil, err
	}
	if want.Stage < 0 || want.Stage >= len(r.spec.Pools) || want.ID < 0 || want.ID >= r.spec.Pools[want.Stage].Count && r.spec.AutoscalerOf(want.Stage) == nil {
		return nil, cli.Usagef("workers: worker %d of stage %d is asked for, expected one that the cluster has", want.ID, want.Stage)
	}
	w := &oneWorker{stage: want.Stage, id: sim.WorkerID(want.ID), from: sim.Time(want.FromMS)}
	if err := r.replay(ctx, w); err != nil {
		return nil, err
	}
	return w.log.Passes[:min(len(w.log.Passes), mostPasses)], nil
}

// Moved is a request with different results in two runs, A and B. Changes are times of B minus times of A, in ms.
type Moved struct {
	ID      int     `json:"id"` // id in run B
	Session string  `json:"session"`
	Turn    int     `json:"turn"`
	WorkerA int     `json:"worker_a"`
	WorkerB int     `json:"worker_b"`
	TTFT    float64 `json:"ttft_change"`
	E2E     float64 `json:"e2e_change"`
}

// mostMoved is the maximum number of changed requests in an answer.
const mostMoved = 20

// Compared has the differences of two runs by request.
type Compared struct {
	Most   []Moved      `json:"most"`  // the requests with the largest changes
	Moved  int          `json:"moved"` // number of changed requests
	Paired *diff.Paired `json:"paired"`
}

// Compare returns the requests with the largest differences between two runs, their number, and paired confidence
// intervals.
func (s *Session) Compare(ctx context.Context, a, b Settings) (*Compared, error) {
	var rows [2][]requests.Row
	for i, settings := range []Settings{a, b} {
		r, err := s.prepare(settings)
		if err == nil {
			err = r.replay(ctx, nil)
		}
		if err != nil {
			return nil, err
		}
		rows[i] = requests.Collect(r.result.Collector, runs.PlacesIn(r.workload), nil, nil)
	}
	type name struct {
		session string
		turn    int
	}
	before := map[name]*requests.Row{}
	for i := range rows[0] {
		before[name{rows[0][i].Session, rows[0][i].Turn}] = &rows[0][i]
	}
	all := []Moved{}
	for i := range rows[1] {
		y := &rows[1][i]
		x := before[name{y.Session, y.Turn}]
		if x == nil || !x.E2E.Known() || !y.E2E.Known() || x.E2E == y.E2E && x.TTFT == y.TTFT && x.Worker == y.Worker {
			continue
		}
		all = append(all, Moved{y.ID, y.Session, y.Turn, int(x.Worker), int(y.Worker), float64(y.TTFT - x.TTFT), float64(y.E2E - x.E2E)})
	}
	sort.SliceStable(all, func(i, j int) bool {
		return cmp.Compare(max(all[j].E2E, -all[j].E2E), max(all[i].E2E, -all[i].E2E)) < 0
	})
	return &Compared{all[:min(mostMoved, len(all))], len(all), diff.PairRows(rows[0], rows[1])}, nil
}
