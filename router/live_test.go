package router

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// liveTwin drives a KV router and a live one with the same requests.
type liveTwin struct {
	t     *testing.T
	tree  *prompt.Tree
	kv    *KV
	live  *Live
	index *Index
	now   sim.Time
	sent  []*sim.Request
	done  map[int]bool // prefills
}

func (l *liveTwin) note(placed []Placement, err error, live []LivePlacement, liveErr error) {
	l.t.Helper()
	var a, b string
	for _, p := range placed {
		a += fmt.Sprintf("%d on %d: %d of %d blocks, cost %v; ", p.Request.ID, p.Worker, p.Overlap, p.Blocks, p.Cost)
	}
	for _, p := range live {
		b += fmt.Sprintf("%s on %d: %d of %d blocks, cost %v; ", p.Request, p.Worker, p.Overlap, p.Blocks, p.Cost)
	}
	if a != b || (err == nil) != (liveErr == nil) || l.kv.Queued() != l.live.Queued() {
		l.t.Fatalf("at %v: live: %s%v, %d held, want %s%v, %d held", l.now, b, liveErr, l.live.Queued(), a, err, l.kv.Queued())
	}
}

// request is a request as the live router sees it.
func (l *liveTwin) request(q *sim.Request) LiveRequest {
	local, seq := l.tree.Hashes(q.Prompt)
	x := LiveRequest{ID: fmt.Sprint(q.ID), Tokens: q.InputTokens, Sequence: seq, Overlap: map[uint64]int32{}}
	for _, m := range l.index.Match(local, false, nil) {
		x.Longest = max(x.Longest, m.Blocks)
		x.Overlap[uint64(m.Member.Worker)] = m.Blocks
	}
	return x
}

func (l *liveTwin) arrive(q *sim.Request) {
	l.t.Helper()
	l.sent = append(l.sent, q)
	x := l.request(q)
	a, err := l.kv.Route(l.now, q, nil)
	b, liveErr := l.live.Route(l.now, x, nil)
	l.note(a, err, b, liveErr)
}

func (l *liveTwin) advance(rng *rand.Rand) {
	l.t.Helper()
	if len(l.sent) == 0 {
		return
	}
	i := rng.IntN(len(l.sent))
	q := l.sent[i]
	if _, placed := l.kv.find(q.ID); !placed {
		return
	}
	id := fmt.Sprint(q.ID)
	if !l.done[i] && rng.IntN(3) > 0 {
		l.done[i] = true
		a, err := l.kv.PrefillDone(l.now, q.ID, nil)
		b, liveErr := l.live.PrefillDone(l.now, id, nil)
		l.note(a, err, b, liveErr)
		return
	}
	a, err := l.kv.Finished(l.now, q.ID, nil)
	b, liveErr := l.live.Finished(l.now, id, nil)
	l.note(a, err, b, liveErr)
}

// slope predicts prefills.
type slope struct{}

func (slope) PrefillSeconds(_, newTokens, prefix int) (float64, bool) {
	return float64(newTokens)/100 + float64(prefix)/10000, newTokens%7 != 0
}

// On the same requests the live router makes the placements of the other one,
// with every setting.
func TestLiveTwin(t *testing.T) {
	held, seeds := 0, uint64(200)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		rng := sim.NewRand(seed, "live")
		workers := 1 + rng.IntN(5)
		config := DefaultConfig()
		config.OverlapScoreCredit = []float64{1, 1, 0.5, 0}[rng.IntN(4)]
		config.PrefillLoadScale = []float64{1, 1, 2, 0}[rng.IntN(4)]
		config.Temperature = []float64{0, 0, 0, 0.7}[rng.IntN(4)]
		config.TrackActiveBlocks = rng.IntN(5) > 0
		config.AssumeKVReuse = rng.IntN(5) > 0
		config.TrackPrefillTokens = rng.IntN(6) > 0
		config.QueuePolicy = Policy(rng.IntN(3))
		threshold := []float64{0, 0.5, 1, 4}[rng.IntN(4)]
		if config.QueueThreshold = &threshold; rng.IntN(4) == 0 {
			config.QueueThreshold = nil
		}
		stage := Stage(rng.IntN(3))
		var estimator Estimator
		if rng.IntN(3) == 0 && stage != Decode {
			config.PrefillLoadModel, estimator = LoadAIC, slope{}
		}
		asked, tree := prompts(rng, shape{8, 4, false}, 40)
		kv, err := NewKV(Options{Config: config, Stage: stage, Workers: workers, Tree: tree, MaxBatchedTokens: 16, Exact: true, Estimator: estimator})
		if err != nil {
			t.Fatal(err)
		}
		live, err := NewLive(LiveOptions{Config: config, Stage: stage, BlockTokens: 4, MaxBatchedTokens: 16, Estimator: estimator})
		if err != nil {
			t.Fatal(err)
		}
		l := &liveTwin{t: t, tree: tree, kv: kv, live: live, index: NewIndex(), done: map[int]bool{}}
		caches := make([]cache, workers)
		for w := range workers {
			caches[w] = cache{}
			if err := live.AddWorker(uint64(w)); err != nil {
				t.Fatal(err)
			}
		}
		for range 400 {
			l.now += sim.Time(rng.IntN(100)) / 4
			switch rng.IntN(8) {
			case 0, 1:
				l.cache(rng, caches, asked)
			case 2, 3, 4:
				q := asked[rng.IntN(len(asked))]
				l.arrive(&sim.Request{ID: sim.RequestID(len(l.sent)), InputTokens: int(q.Blocks)*4 + 1 + rng.IntN(3), OutputTokens: 2, Prompt: q})
			case 5:
				l.resize(rng, workers)
			default:
				l.advance(rng)
			}
			held += kv.Queued()
		}
	}
	if held == 0 {
		t.Error("no request was ever held")
	}
}

// cache lets a worker's cache change.
func (l *liveTwin) cache(rng *rand.Rand, caches []cache, asked []prompt.Prompt) {
	l.t.Helper()
	w := rng.IntN(len(caches))
	p := &scheduler.Pass{Count: 1}
	if q := asked[rng.IntN(len(asked))]; q.Blocks > 0 {
		caches[w].fill(l.tree, q, 1+rng.IntN(int(q.Blocks)), p)
	}
	if rng.IntN(3) == 0 {
		caches[w].evict(rng, p)
	}
	if err := l.kv.Observe(sim.WorkerID(w), p); err != nil {
		l.t.Fatal(err)
	}
	for _, e := range p.Events {
		if err := l.index.Apply(sim.WorkerID(w), e); err != nil {
			l.t.Fatal(err)
		}
	}
}

// resize lets a worker leave or come back.
func (l *liveTwin) resize(rng *rand.Rand, workers int) {
	l.t.Helper()
	w := rng.IntN(workers)
	change, liveChange := l.kv.AddWorker, l.live.AddWorker
	if l.kv.workers.has(sim.WorkerID(w)) {
		if len(l.kv.workers.ids) == 1 {
			return
		}
		change, liveChange = l.kv.RemoveWorker, l.live.RemoveWorker
	}
	if a, b := change(sim.WorkerID(w)), liveChange(uint64(w)); a != nil || b != nil {
		l.t.Fatalf("worker %d: %v, %v", w, a, b)
	}
	a, err := l.kv.Drain(l.now, nil)
	b, liveErr := l.live.Drain(l.now, nil)
	l.note(a, err, b, liveErr)
}

// A live router forgets what has gone.
func TestLiveForgets(t *testing.T) {
	threshold := 0.0
	config := DefaultConfig()
	config.QueueThreshold = &threshold
	r, err := NewLive(LiveOptions{Config: config, BlockTokens: 4, MaxBatchedTokens: 16})
	if err != nil {
		t.Fatal(err)
	}
	q := func(id string) LiveRequest { return LiveRequest{ID: id, Tokens: 9, Sequence: []uint64{1, 2}} }
	if _, err := r.Route(0, q("early"), nil); err == nil || err.Error() != (&NoWorkersError{}).Error() {
		t.Errorf("without workers: %v", err)
	}
	for _, err := range []error{r.AddWorker(7), r.AddWorker(3)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if r.AddWorker(7) == nil || r.RemoveWorker(8) == nil {
		t.Error("a worker was added twice, or removed without being there")
	}
	var placed []LivePlacement
	for _, id := range []string{"a", "b", "c", "d"} {
		if placed, err = r.Route(0, q(id), placed); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(placed); !strings.HasPrefix(got, "[{a 3 0 3 4.25} {b 7 0 3 4.25}]") || r.Queued() != 2 {
		t.Errorf("%v and %d held", got, r.Queued())
	}
	if _, err := r.Route(0, q("a"), nil); err == nil {
		t.Error("a request was taken twice")
	}
	if got, err := r.Finished(1, "c", nil); err != nil || len(got) > 0 || r.Queued() != 1 { // gave up in the queue
		t.Errorf("%v %v and %d held", got, err, r.Queued())
	}
	if err := r.RemoveWorker(3); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Finished(2, "b", nil); err != nil || len(got) != 1 || got[0].Request != "d" || got[0].Worker != 7 {
		t.Errorf("%v %v, want d on 7", got, err)
	}
	for _, id := range []string{"a", "d", "d", "nobody"} {
		if _, err := r.Finished(3, id, nil); err != nil {
			t.Error(err)
		}
	}
	if len(r.workers) != 1 || len(r.requests) != 0 || len(r.workers[7].refs) != 0 {
		t.Errorf("%d workers, %d requests and %d blocks are left", len(r.workers), len(r.requests), len(r.workers[7].refs))
	}
	if loads, err := r.Loads(4); err != nil || len(loads) != 1 || loads[0] != (LiveLoad{Worker: 7}) {
		t.Errorf("%+v %v", loads, err)
	}
	if _, err := r.PrefillDone(4, "a", nil); err == nil {
		t.Error("a request that is gone has its prefill done")
	}
}
