package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// told is a fact about a worker that a router will know, with the instant from which it is true.
type told struct {
	at     sim.Time
	worker sim.WorkerID
	signal Signal // Running for all metrics
	show   func(*lateTwin)
}

// lateTwin is a dispatcher with delayed signals, and a literal model of its state: all reports up to an instant,
// evaluated from the beginning at each choice.
type lateTwin struct {
	t       *testing.T
	d       *Dispatcher
	tree    *prompt.Tree
	exact   bool
	signals Signals
	log     []told
	now     sim.Time
	next    sim.RequestID
	on      []onWorker
	seen    int // number of choices

	running []int32
	tokens  []int64
	metrics []Metrics
	caches  index
	loads   loads
}

// onWorker is a request on its worker, with prompt tokens to compute.
type onWorker struct {
	request *sim.Request
	worker  sim.WorkerID
	charge  int64
}

const lateWorkers = 4

func (x *lateTwin) Needs() Needs {
	return Needs{Running: true, Tokens: true, Blocks: true, Shared: true, Overlap: true, Metrics: true}
}

// Choose compares the facts of the policy with the facts derived from the reports.
func (x *lateTwin) Choose(q *sim.Request, c *Candidates) Choice {
	x.t.Helper()
	x.seen++
	x.running, x.tokens, x.metrics = make([]int32, lateWorkers), make([]int64, lateWorkers), make([]Metrics, lateWorkers)
	x.loads = newTreeLoads(x.tree, lateWorkers)
	if x.caches = index(residency{newHoldings(x.tree, lateWorkers)}); x.exact {
		x.caches = newTreeIndex(x.tree)
	}
	for _, s := range []Signal{Caches, Loads, Running, Waiting, KVUsage} {
		before := slices.Clone(x.metrics)
		for _, op := range x.log {
			if op.at <= x.signals.AgeOf(s, false).asOf(c.Now) && (op.signal == s || op.signal == Running && s.Reported()) {
				op.show(x)
			}
		}
		for w := range before {
			got := x.metrics[w]
			switch x.metrics[w] = before[w]; s {
			case Running:
				x.metrics[w].Running = got.Running
			case Waiting:
				x.metrics[w].Waiting = got.Waiting
			case KVUsage:
				x.metrics[w].KV = got.KV
			}
		}
	}
	var overlap, active scores
	overlap.grow(lateWorkers)
	active.grow(lateWorkers)
	x.caches.match(q, &overlap)
	x.loads.match(q, &active)
	want := fmt.Sprint(x.running, x.tokens, x.loads.byWorker(), overlap.by, active.by, x.metrics)
	if got := fmt.Sprint(c.Running, c.Tokens, c.Blocks, c.Overlap, c.Active, c.Metrics); got != want {
		x.t.Fatalf("at %v, with %v: shown %s, want %s", float64(c.Now), makeAges(x.signals, false), got, want)
	}
	return Choice{Worker: c.Workers[int(q.ID)%len(c.Workers)], Second: None}
}

// tell adds a report, which the router knows after the age of the signal.
func (x *lateTwin) tell(w sim.WorkerID, s Signal, show func(*lateTwin)) {
	x.log = append(x.log, told{x.now, w, s, show})
}

// TestLateSignalsTwin checks that a policy sees the state at the age of each signal, also when workers die and
// return.
func TestLateSignalsTwin(t *testing.T) {
	seen := 0
	for seed := range uint64(150) {
		r := sim.NewRand(seed, "late")
		s := shapes[r.IntN(len(shapes))]
		asked, tree := prompts(r, s, 12)
		x := &lateTwin{t: t, tree: tree, exact: !s.joined && r.IntN(2) == 0}
		for _, name := range AllSignals() {
			x.signals.Set(name, Age{Delay: sim.Time(r.IntN(4) * 25), Interval: sim.Time(r.IntN(3) * 40)})
		}
		x.d = New(Options{Policy: x, Workers: lateWorkers, Tree: tree, Exact: x.exact, Signals: x.signals})
		x.run(r, asked)
		seen += x.seen
	}
	if seen < 10_000 {
		t.Errorf("%d choices, want more", seen)
	}
}

// run runs random operations.
func (x *lateTwin) run(r *rand.Rand, asked []prompt.Prompt) {
	caches := make([]cache, lateWorkers)
	for w := range caches {
		caches[w] = cache{}
	}
	for range 400 {
		x.now += sim.Time(r.IntN(3) * 5)
		w := sim.WorkerID(r.IntN(lateWorkers))
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			x.arrive(r, asked[r.IntN(len(asked))])
		case 4, 5:
			x.observe(r, w, caches[w], asked)
		case 6:
			m := Metrics{Running: int32(r.IntN(9)), Waiting: int32(r.IntN(9)), KV: r.Float64()}
			x.d.Measure(x.now, w, m, nil)
			x.tell(w, Running, func(x *lateTwin) { x.metrics[w] = m })
		case 7, 8:
			if len(x.on) > 0 {
				x.advance(r.IntN(len(x.on)), r.IntN(2) == 0)
			}
		case 9:
			if r.IntN(8) == 0 {
				caches[w] = cache{}
				x.restart(w)
			}
		}
	}
}

// arrive routes a request.
func (x *lateTwin) arrive(r *rand.Rand, p prompt.Prompt) {
	block := x.tree.BlockTokens()
	q := &sim.Request{ID: x.next, Prompt: p, InputTokens: int(p.Blocks)*block + r.IntN(block)}
	x.next++
	placed, err := x.d.Route(x.now, q, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	n, w := int64(q.InputTokens), placed[0].Worker
	n -= min(int64(placed[0].Overlap)*int64(block), n)
	x.tell(w, Loads, func(x *lateTwin) {
		x.running[w]++
		x.tokens[w] += n
		x.loads.add(w, q)
	})
	x.on = append(x.on, onWorker{q, w, n})
}

// advance ends the prefill of the ith request, or the request.
func (x *lateTwin) advance(i int, first bool) {
	p := &x.on[i]
	q, w, n := p.request, p.worker, p.charge
	if p.charge = 0; first {
		if _, err := x.d.PrefillDone(x.now, q.ID, nil); err != nil {
			x.t.Fatal(err)
		}
		x.tell(w, Loads, func(x *lateTwin) { x.tokens[w] -= n })
		return
	}
	x.on = slices.Delete(x.on, i, i+1)
	if _, err := x.d.Finished(x.now, q.ID, nil); err != nil {
		x.t.Fatal(err)
	}
	x.tell(w, Loads, func(x *lateTwin) {
		x.running[w]--
		x.tokens[w] -= n
		x.loads.remove(w, q)
	})
}

// restart removes a worker and adds it again. Reports of the worker are dropped, and requests on the worker are known
// at once.
func (x *lateTwin) restart(w sim.WorkerID) {
	x.d.Forget(w)
	x.log = slices.DeleteFunc(x.log, func(op told) bool { return op.worker == w && op.signal != Loads })
	if err := x.d.RemoveWorker(w); err != nil {
		x.t.Fatal(err)
	}
	for i := len(x.on) - 1; i >= 0; i-- {
		if x.on[i].worker == w {
			x.advance(i, false)
		}
	}
	if err := x.d.AddWorker(w); err != nil {
		x.t.Fatal(err)
	}
	for i := range x.log {
		if x.log[i].worker == w {
			x.log[i].at = -1e9
		}
	}
}

// observe changes the cache of a worker.
func (x *lateTwin) observe(r *rand.Rand, w sim.WorkerID, c cache, asked []prompt.Prompt) {
	p := &scheduler.Pass{Start: x.now, Count: 1}
	if q := asked[r.IntN(len(asked))]; q.Blocks > 0 {
		c.fill(x.tree, q, 1+r.IntN(int(q.Blocks)), p)
	}
	if r.IntN(3) == 0 {
		c.evict(r, p)
	}
	if err := x.d.Observe(w, p); err != nil {
		x.t.Fatal(err)
	}
	x.tell(w, Caches, func(x *lateTwin) {
		if err := x.caches.observe(w, p); err != nil {
			x.t.Fatal(err)
		}
	})
}
