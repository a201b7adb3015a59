package policy

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// stand is a KV router under manual control. A hash id is 64 tokens, and the test sets the actions of the engines.
type stand struct {
	t    *testing.T
	tree *prompt.Tree
	d    *router.Dispatcher
	sent []*sim.Request
	on   map[sim.RequestID]sim.WorkerID
	last router.Placement
	log  []string // events since the latest call of want
}

const traceTokens = 64

// setup configures a router with the KV policy. By default, a setup has two workers, blocks of 64 tokens and a budget
// of 8192 tokens.
type setup struct {
	Config           router.Config
	Role             scheduler.Role
	Workers          int
	Tree             *prompt.Tree
	MaxBatchedTokens int
	WorkerBatches    []int
	Exact            bool
	Seed             uint64
}

func (o setup) dispatcher(tb testing.TB) *router.Dispatcher {
	tb.Helper()
	p, err := newKV(Options{
		Config: o.Config, Role: o.Role, Seed: o.Seed,
		BlockTokens: o.Tree.BlockTokens(), MaxBatchedTokens: o.MaxBatchedTokens, WorkerBatches: o.WorkerBatches,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return router.New(router.Options{Policy: p, Workers: o.Workers, Tree: o.Tree, Exact: o.Exact})
}

func newStand(t *testing.T, config string, o setup) *stand {
	t.Helper()
	var err error
	if o.Config, err = router.ParseConfig([]byte(config)); err != nil {
		t.Fatal(err)
	}
	if o.Tree == nil {
		o.Tree = prompt.NewTree(traceTokens, 64, prompt.Options{Wrap: true})
	}
	if o.MaxBatchedTokens == 0 {
		o.MaxBatchedTokens = 8192
	}
	if o.Workers == 0 {
		o.Workers = 2
	}
	return &stand{t: t, tree: o.Tree, d: o.dispatcher(t), on: make(map[sim.RequestID]sim.WorkerID)}
}

// arrive routes a new request with a prompt of all tokens of the given ids.
func (s *stand) arrive(now sim.Time, ids ...uint64) *sim.Request {
	s.t.Helper()
	return s.arriveCut(now, traceTokens*len(ids), ids...)
}

func (s *stand) arriveCut(now sim.Time, tokens int, ids ...uint64) *sim.Request {
	s.t.Helper()
	q := &sim.Request{ID: sim.RequestID(len(s.sent)), InputTokens: tokens, OutputTokens: 4, Prompt: s.tree.Add(ids, tokens)}
	s.sent = append(s.sent, q)
	s.note(s.d.Route(now, q, nil))
	return q
}

func (s *stand) note(placed []router.Placement, err error) {
	for _, p := range placed {
		s.on[p.Request.ID], s.last = p.Worker, p
		s.log = append(s.log, fmt.Sprintf("%c w%d %v", 'A'+rune(p.Request.ID), p.Worker, p.Cost))
	}
	if err != nil {
		s.log = append(s.log, err.Error())
	}
}

func (s *stand) prefillDone(now sim.Time, q *sim.Request) {
	s.t.Helper()
	s.note(s.d.PrefillDone(now, q.ID, nil))
}

func (s *stand) finish(now sim.Time, q *sim.Request) {
	s.t.Helper()
	s.note(s.d.Finished(now, q.ID, nil))
}

// serve runs a placed request to its end.
func (s *stand) serve(now sim.Time, q *sim.Request) {
	s.t.Helper()
	s.cache(q)
	s.prefillDone(now, q)
	s.finish(now, q)
}

// cache caches the prompt of a placed request on its worker.
func (s *stand) cache(q *sim.Request) {
	s.t.Helper()
	s.observe(s.worker(q), s.stored(q, 0))
}

func (s *stand) worker(q *sim.Request) sim.WorkerID {
	s.t.Helper()
	w, ok := s.on[q.ID]
	if !ok {
		s.t.Fatalf("request %d is not placed", q.ID)
	}
	return w
}

// evict evicts the blocks of a prompt from block number from on.
func (s *stand) evict(w sim.WorkerID, q *sim.Request, from int) {
	s.t.Helper()
	_, seq := s.tree.Hashes(q.Prompt)
	p := &scheduler.Pass{Count: 1}
	for k := len(seq) - 1; k >= from; k-- {
		p.KV = append(p.KV, s.change(q, k, 0))
		p.Events = append(p.Events, scheduler.KVEvent{Removed: []uint64{seq[k]}})
	}
	s.observe(w, p)
}

func (s *stand) observe(w sim.WorkerID, p *scheduler.Pass) {
	s.t.Helper()
	if err := s.d.Observe(w, p); err != nil {
		s.t.Fatal(err)
	}
}

// stored returns a pass that caches a prompt. salt changes the names of its blocks.
func (s *stand) stored(q *sim.Request, salt uint64) *scheduler.Pass {
	local, seq := s.tree.Hashes(q.Prompt)
	p := &scheduler.Pass{Count: 1}
	e := scheduler.KVEvent{}
	for k := range local {
		p.KV = append(p.KV, s.change(q, k, 1))
		e.Stored = append(e.Stored, scheduler.KVBlock{Seq: seq[k] ^ salt, Tokens: local[k]})
	}
	p.Events = []scheduler.KVEvent{e}
	return p
}

// change returns the change of a node when block k of a prompt is stored (cached is 1) or evicted (cached is 0).
func (s *stand) change(q *sim.Request, k, cached int) scheduler.KVChange {
	n := q.Prompt.Nodes[s.tree.Index(q.Prompt.Nodes, k)]
	return scheduler.KVChange{Node: n, Blocks: int32(k+cached) - s.tree.Start(n)}
}

// storedTokens returns a pass that announces a prompt of equal tokens, one by one, as SGLang does.
func storedTokens(token uint64, count int, rank int32) *scheduler.Pass {
	b := binary.LittleEndian.AppendUint64(nil, token)
	e := scheduler.KVEvent{Rank: rank}
	for k := range count {
		e.Stored = append(e.Stored, scheduler.KVBlock{Seq: token<<32 + uint64(k) + 1, Tokens: blockhash.Bytes(b)})
	}
	return &scheduler.Pass{Count: 1, Events: []scheduler.KVEvent{e}, KVAtEnd: true}
}

// want compares the events since the latest call of want.
func (s *stand) want(lines ...string) {
	s.t.Helper()
	if got, want := strings.Join(s.log, "\n"), strings.Join(lines, "\n"); got != want {
		s.t.Errorf("placements:\n%s\nwant:\n%s", got, want)
	}
	s.log = nil
}

// both runs a test with each kind of block index.
func both(t *testing.T, f func(t *testing.T, exact bool)) {
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprintf("exact=%t", exact), func(t *testing.T) { f(t, exact) })
	}
}

func (s *stand) add(w sim.WorkerID) {
	s.t.Helper()
	if err := s.d.AddWorker(w); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) remove(w sim.WorkerID) {
	s.t.Helper()
	if err := s.d.RemoveWorker(w); err != nil {
		s.t.Fatal(err)
	}
}
