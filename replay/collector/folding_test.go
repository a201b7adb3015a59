package collector_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// script is a random replay that is recorded by several collectors at once.
type script struct {
	rng    *rand.Rand
	all    []*collector.Collector
	nanos  func(*rand.Rand) bool // draws whether the duration of a pass is in whole ns
	fates  bool                  // requests lose their workers
	now    sim.Time
	open   []*asked
	next   sim.RequestID
	events int
}

type asked struct {
	id           sim.RequestID
	tokens, want int // on the latest worker
	last         sim.Time
}

func (s *script) tell(what func(*collector.Collector)) {
	for _, c := range s.all {
		what(c)
	}
}

func (s *script) arrive() {
	r := &sim.Request{ID: s.next, InputTokens: 1 + s.rng.IntN(2000), OutputTokens: 1 + s.rng.IntN(30), Line: int32(s.next + 3), Class: int32(s.next % 3)}
	s.tell(func(c *collector.Collector) { c.Arrive(r, s.now); c.Place(r.ID, sim.WorkerID(r.ID%7)) })
	s.next++
	switch {
	case s.fates && s.rng.IntN(20) == 0:
		s.tell(func(c *collector.Collector) { c.GiveUp(r.ID, collector.Shed, 0, 0) })
	default:
		s.open = append(s.open, &asked{id: r.ID, want: r.OutputTokens})
	}
}

// step runs a pass that gives a token to some of the open requests.
func (s *script) step() {
	n := 1 + s.rng.Int64N(40_000_000)
	p := scheduler.Pass{Start: s.now, Count: 1, Gap: sim.Time(float64(n) / 1e6)}
	p.End = p.Start + p.Gap
	if s.nanos(s.rng) {
		p.Nanos = []int64{n}
	}
	for _, q := range s.open {
		if s.rng.IntN(6) > 0 {
			s.token(&p, q)
		}
	}
	s.tell(func(c *collector.Collector) { c.Pass(&p) })
	s.now = p.End
	s.open = slices.DeleteFunc(s.open, func(q *asked) bool { return q.tokens == q.want })
	if s.fates && len(s.open) > 0 && s.rng.IntN(4) == 0 {
		s.lose(s.rng.IntN(len(s.open)))
	}
}

func (s *script) token(p *scheduler.Pass, q *asked) {
	if q.tokens == 0 || s.rng.IntN(15) == 0 {
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: q.id, Reused: s.rng.IntN(500), FromHost: s.rng.IntN(3) * 10, Again: q.tokens > 0})
	}
	if q.tokens++; q.tokens > 1 {
		if s.rng.IntN(9) == 0 {
			p.Gaps = append(p.Gaps, p.End-q.last)
		} else {
			p.Decoding++
		}
	}
	if q.tokens == 2 {
		p.Second = append(p.Second, q.id)
	}
	if s.rng.IntN(60) == 0 && q.tokens > 2 {
		q.want = q.tokens // the answer is clipped
	}
	if m := (scheduler.Mark{Request: q.id, Tokens: q.tokens, First: q.tokens == 1, Last: q.tokens == q.want}); m.First || m.Last {
		p.Marks = append(p.Marks, m)
	}
	p.Tokens++
	q.last = p.End
}

// lose removes a request from its worker.
func (s *script) lose(i int) {
	q := s.open[i]
	s.tell(func(c *collector.Collector) { s.events = c.BeginEvent() })
	switch s.rng.IntN(3) {
	case 0:
		s.tell(func(c *collector.Collector) { c.Retry(q.id, q.tokens, s.events) })
		q.tokens = 0
	case 1:
		s.tell(func(c *collector.Collector) { c.Migrate(q.id, q.tokens, q.last, s.events) })
		q.want, q.tokens = q.want-q.tokens, 0
	default:
		s.tell(func(c *collector.Collector) { c.GiveUp(q.id, collector.Lost, q.tokens, s.events) })
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// end ends the replay with unfinished requests.
func (s *script) end() {
	for _, q := range s.open {
		if q.tokens > 0 && !s.fates {
			s.tell(func(c *collector.Collector) { c.Progress(q.id, q.tokens, q.last) })
		}
	}
	s.tell((*collector.Collector).EndedEarly)
}

// kept is a sink that keeps the folded requests.
type kept struct{ all []collector.Folded }

func (k *kept) Folded(f *collector.Folded) error {
	k.all = append(k.all, *f)
	return nil
}

func newFolding(t *testing.T, how collector.Folding) *collector.Collector {
	t.Helper()
	c, err := collector.NewFolding(how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Err(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestFoldingIsKeeping compares folding collectors with one that keeps records. With exact quantiles the report is
// identical. With sketched quantiles, quantiles are within SketchError, and means and deviations differ only in their
// last digits.
func TestFoldingIsKeeping(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			sink := &kept{}
			plain := collector.New(0)
			exact := newFolding(t, collector.Folding{Quantiles: collector.Exact, Dir: t.TempDir(), Sink: sink})
			sketched := newFolding(t, collector.Folding{})
			s := &script{rng: rand.New(rand.NewPCG(seed, 2)), all: []*collector.Collector{plain, exact, sketched}, fates: seed%3 == 1}
			s.nanos = []func(*rand.Rand) bool{
				func(*rand.Rand) bool { return true }, func(*rand.Rand) bool { return false }, func(r *rand.Rand) bool { return r.IntN(50) > 0 },
			}[seed/3%3]
			s.tell(func(c *collector.Collector) {
				if s.fates {
					c.KeepOutcomes()
				}
				if seed%4 == 0 {
					c.CountPreemptedApart()
				}
				if seed%5 == 0 {
					c.Within(collector.Window{From: 300, To: 2500})
				}
			})
			for range 400 {
				for s.rng.IntN(3) == 0 {
					s.arrive()
				}
				s.step()
			}
			for seed%2 == 0 && len(s.open) > 0 {
				s.step()
			}
			if s.end(); s.next < 100 {
				t.Fatalf("nothing tested: %d requests", s.next)
			}
			records := slices.Clone(plain.Records())
			compareFolded(t, plain, exact, sketched)
			checkSink(t, plain, records, sink.all)
		})
	}
}

func compareFolded(t *testing.T, plain, exact, sketched *collector.Collector) {
	t.Helper()
	want, near := plain.Report(0), sketched.Report(0)
	if got := exact.Report(0); !reflect.DeepEqual(got, want) {
		t.Errorf("exact: got\n%+v, want\n%+v", got, want)
	}
	if again := exact.Report(0); !reflect.DeepEqual(again, want) {
		t.Error("a second report differs from the first")
	}
	if !reflect.DeepEqual(near, sketched.Report(0)) {
		t.Error("a second sketched report differs from the first")
	}
	for _, c := range []*collector.Collector{exact, sketched} {
		gotBy, gotSum := c.Outcomes()
		wantBy, wantSum := plain.Outcomes()
		if gotBy != wantBy || gotSum != wantSum || c.HostReusedRatio() != plain.HostReusedRatio() || c.CountWindow() != plain.CountWindow() ||
			c.Len() != plain.Len() || c.LastArrival() != plain.LastArrival() || c.CountFull() != plain.CountFull() {
			t.Errorf("counts differ: %v %v, want %v %v", gotBy, gotSum, wantBy, wantSum)
		}
	}
	numbers := near.Numbers()
	for key, v := range want.Numbers() {
		tolerance := 0.0
		switch statistic, _, _ := strings.Cut(key, "_"); statistic {
		case "median", "p75", "p90", "p95", "p99":
			tolerance = collector.SketchError
		case "std", "mean": // also the mean, for gaps that are not whole ns
			tolerance = 1e-12
		}
		if strings.HasPrefix(key, "mean_") && !strings.Contains(key, "itl") && !strings.Contains(key, "per_user") {
			tolerance = 0
		}
		if got := numbers[key]; math.Abs(got-v) > tolerance*v*(1+1e-12) {
			t.Errorf("%s: sketched is %v, want %v within %v of it", key, got, v, tolerance)
		}
	}
	for _, key := range []string{"ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms"} {
		v, _ := plain.Percentile(key, 99.9)
		got, _ := exact.Percentile(key, 99.9)
		about, _ := sketched.Percentile(key, 99.9)
		if got != v || math.Abs(about-v) > collector.SketchError*v {
			t.Errorf("p99.9 of %s is %v, and %v sketched, want %v", key, got, about, v)
		}
	}
}

// checkSink checks that the sink received all requests in order of arrival, with the same records.
func checkSink(t *testing.T, plain *collector.Collector, records []collector.Record, got []collector.Folded) {
	t.Helper()
	if len(got) != len(records) {
		t.Fatalf("%d requests were folded, want %d", len(got), len(records))
	}
	for i := range got {
		id := sim.RequestID(i)
		own, _ := plain.Readmitted(id)
		_, apart := plain.Readmitted(id)
		want := collector.Folded{
			ID: id, Record: records[i], Line: int32(i + 3), Class: int32(i % 3), Fate: plain.Fate(id), Outcome: plain.OutcomeOf(id), Readmitted: own,
			Kinds: collector.Kinds{Windowed: plain.Window().IsSet(), Apart: apart, Outcomes: plain.KeepsOutcomes()},
		}
		if got[i] != want {
			t.Fatalf("request %d was folded as\n%+v, want\n%+v", i, got[i], want)
		}
	}
}

// TestFoldingManyPasses checks spans and blocks that fill more than one chunk.
func TestFoldingManyPasses(t *testing.T) {
	plain := collector.New(0)
	exact := newFolding(t, collector.Folding{Quantiles: collector.Exact})
	sketched := newFolding(t, collector.Folding{})
	s := &script{rng: rand.New(rand.NewPCG(1, 3)), all: []*collector.Collector{plain, exact, sketched}, nanos: func(*rand.Rand) bool { return true }}
	s.arrive()
	for range 20_000 {
		n := 1 + s.rng.IntN(300)
		p := scheduler.Pass{Start: s.now, Count: n, Decoding: 1 + s.rng.IntN(100)}
		length := 1 + s.rng.Int64N(1<<s.rng.IntN(39))
		for range n {
			s.now += sim.Time(float64(length) / 1e6)
			p.Ends, p.Nanos = append(p.Ends, s.now), append(p.Nanos, length)
			length += s.rng.Int64N(100)
		}
		p.End = s.now
		s.tell(func(c *collector.Collector) { c.Pass(&p) })
	}
	compareFolded(t, plain, exact, sketched)
}

// TestFoldingManyGaps checks that gaps are sketched if more different gaps occur than are kept.
func TestFoldingManyGaps(t *testing.T) {
	plain := collector.New(0)
	exact := newFolding(t, collector.Folding{Quantiles: collector.Exact})
	sketched := newFolding(t, collector.Folding{})
	s := &script{rng: rand.New(rand.NewPCG(1, 4)), all: []*collector.Collector{plain, exact, sketched}}
	s.arrive()
	for i := range 1_300_000 {
		p := scheduler.Pass{Count: 1, Decoding: 1 + i%5, Gap: sim.Time(s.rng.ExpFloat64())}
		if i == 0 {
			p.Gap = 0
		}
		s.tell(func(c *collector.Collector) { c.Pass(&p) })
	}
	compareFolded(t, plain, exact, sketched)
}

// After an error a sink gets no further requests, and the collector returns the error.
func TestFoldingSinkFails(t *testing.T) {
	c, err := collector.NewFolding(collector.Folding{Sink: broken{}})
	if err != nil {
		t.Fatal(err)
	}
	c.Arrive(&sim.Request{InputTokens: 1, OutputTokens: 1}, 0)
	c.FoldAll()
	if err := c.Err(); err == nil || err.Error() != "no space" {
		t.Errorf("the error is %v", err)
	}
}

type broken struct{}

func (broken) Folded(*collector.Folded) error { return errors.New("no space") }

// Temporary files are removed after their last use, and a missing directory is an error.
func TestFoldingLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	c, err := collector.NewFolding(collector.Folding{Quantiles: collector.Exact, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := collector.NewFolding(collector.Folding{Quantiles: collector.Exact, Dir: dir + "/none"}); err == nil {
		t.Error("a directory that is not there is no error")
	}
}
