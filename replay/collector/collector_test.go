package collector_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// engine simulates random requests, random batches, preemptions and runs of passes. The engine's times are multiples
// of 1/1024 ms, so that sums of times are exact.
type engine struct {
	rng      *rand.Rand
	c        *collector.Collector
	n        naive
	now      sim.Time
	open     []sim.RequestID // arrived and not finished
	before   []sim.RequestID // gained a token in the previous pass
	want     []int           // output tokens, by id
	maxGap   int             // longest pass in 1/1024 ms
	runs     int             // passes recorded as part of a run
	resumed  int             // gaps after a preemption
	finished int
}

func (e *engine) arrive() {
	r := &sim.Request{
		ID:          sim.RequestID(len(e.want)),
		InputTokens: 1 + e.rng.IntN(2000), OutputTokens: 1 + e.rng.IntN(40),
	}
	at := e.now - sim.Time(e.rng.IntN(4000))/1024
	e.c.Arrive(r, at.Max0())
	e.n.records = append(e.n.records, naiveRecord{arrival: float64(at.Max0()), in: r.InputTokens, out: r.OutputTokens})
	e.want = append(e.want, r.OutputTokens)
	e.open = append(e.open, r.ID)
}

func (e *engine) tokens(id sim.RequestID) []float64 { return e.n.records[id].tokens }

// step runs a pass with random open requests, or a run of passes with the requests of the previous pass.
func (e *engine) step() {
	p := scheduler.Pass{Start: e.now, Count: 1, Gap: sim.Time(e.rng.IntN(e.maxGap)) / 1024}
	var batch []sim.RequestID
	for _, id := range e.open {
		if e.rng.IntN(8) > 0 {
			batch = append(batch, id)
		}
	}
	if room := e.room(); room > 1 && e.rng.IntN(2) == 0 {
		batch = slices.Clone(e.before)
		p.Count = 2 + e.rng.IntN(room-1)
		e.runs += p.Count
	}
	p.End = p.Start + sim.Time(float64(p.Count)*float64(p.Gap))
	p.Tokens = len(batch)
	for _, id := range batch {
		e.token(&p, id)
	}
	e.c.Pass(&p)
	e.n.pass(&p, batch)
	e.now, e.before = p.End, batch
	e.open = slices.DeleteFunc(e.open, e.done)
	e.before = slices.DeleteFunc(e.before, e.done)
}

func (e *engine) done(id sim.RequestID) bool { return len(e.tokens(id)) == e.want[id] }

// room returns the maximum length of a run with the requests of the previous pass.
func (e *engine) room() int {
	if len(e.before) == 0 {
		return 0
	}
	room := 20
	for _, id := range e.before {
		room = min(room, e.want[id]-1-len(e.tokens(id)))
	}
	return room
}

// token records a token of a request in p.
func (e *engine) token(p *scheduler.Pass, id sim.RequestID) {
	had := e.tokens(id)
	resumed := !slices.Contains(e.before, id)
	if resumed {
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: id, Reused: e.rng.IntN(500)})
	}
	switch {
	case len(had) == 0:
	case resumed:
		e.resumed++
		p.Gaps = append(p.Gaps, p.End-sim.Time(had[len(had)-1]))
	default:
		p.Decoding++
	}
	if len(had) == 1 {
		p.Second = append(p.Second, id)
	}
	m := scheduler.Mark{Request: id, Tokens: len(had) + 1, First: len(had) == 0, Last: len(had)+1 == e.want[id]}
	if m.First || m.Last {
		p.Marks = append(p.Marks, m)
	}
	if m.Last {
		e.finished++
	}
}

// TestReportIsThatOfAllTokenTimes compares the report with the report derived from the times of all tokens. The
// collector uses only gaps and a few instants per request.
func TestReportIsThatOfAllTokenTimes(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			e := &engine{rng: rand.New(rand.NewPCG(seed, 1)), c: collector.New(3), maxGap: 1 << (seed % 18)}
			for range 300 {
				if e.rng.IntN(3) == 0 {
					e.arrive()
				}
				e.step()
			}
			e.arrive()
			for _, id := range e.open {
				if times := e.tokens(id); len(times) > 0 {
					e.c.Progress(id, len(times), sim.Time(times[len(times)-1]))
				}
			}
			if e.finished == 0 || e.runs == 0 || e.resumed == 0 || len(e.open) == 0 {
				t.Fatalf("nothing tested: %d finished, %d open, %d in runs, %d resumed", e.finished, len(e.open), e.runs, e.resumed)
			}
			got, want := e.c.Report(0), e.n.report()
			for _, d := range reference.Compare(want, got) {
				t.Error(d)
			}
			if again := e.c.Report(0); len(reference.Compare(got, again)) > 0 {
				t.Error("a second report differs from the first")
			}
			exactMeans(t, got, want)
			e.checkLatencies(t)
		})
	}
}

// exactMeans checks that the sums of per-request values were computed in order of arrival.
func exactMeans(t *testing.T, got, want *collector.Report) {
	t.Helper()
	pairs := [][2]collector.Distribution{
		{got.TTFT, want.TTFT}, {got.TTST, want.TTST}, {got.TPOT, want.TPOT}, {got.E2E, want.E2E},
	}
	for i, p := range pairs {
		if p[0] != p[1] {
			t.Errorf("distribution %d: got %+v, want %+v", i, p[0], p[1])
		}
	}
}

func (e *engine) checkLatencies(t *testing.T) {
	t.Helper()
	for i := range e.want {
		id := sim.RequestID(i)
		ttft, tpot, ok := e.c.Latencies(id)
		times := e.tokens(id)
		if ok != (len(times) > 0) {
			t.Fatalf("request %d with %d tokens: latencies known is %v", id, len(times), ok)
		}
		if !ok {
			continue
		}
		wantTPOT := 0.0
		if m := len(times); m > 1 {
			wantTPOT = (times[m-1] - times[0]) / float64(m-1)
		}
		if want := times[0] - e.n.records[i].arrival; float64(ttft) != want || float64(tpot) != wantTPOT {
			t.Errorf("request %d: latencies %v, %v, want %v, %v", id, ttft, tpot, want, wantTPOT)
		}
	}
}

// TestOneRequest replays example E1 of the specification: one request on one worker.
func TestOneRequest(t *testing.T) {
	c := collector.New(1)
	c.Arrive(&sim.Request{InputTokens: 1000, OutputTokens: 5}, 0)
	c.Place(0, 0)
	const first, gap = sim.Time(37.852452), sim.Time(5.746593000000004)
	c.Pass(&scheduler.Pass{
		Start: 0, End: first, Gap: first, Count: 1,
		Admitted: []scheduler.Admission{{Request: 0}},
		Marks:    []scheduler.Mark{{Request: 0, First: true, Tokens: 1}},
	})
	c.Pass(&scheduler.Pass{
		Start: first, End: 55.09223100000001, Gap: gap, Count: 3, Decoding: 1, Second: []sim.RequestID{0},
	})
	c.Pass(&scheduler.Pass{
		Start: 55.09223100000001, End: 60.83882400000002, Gap: gap, Count: 1, Decoding: 1,
		Marks: []scheduler.Mark{{Request: 0, Last: true, Tokens: 5}},
	})
	all := func(v float64) collector.Distribution {
		return collector.Distribution{Mean: v, Min: v, Max: v, Median: v, P75: v, P90: v, P95: v, P99: v}
	}
	got := c.Report(0)
	want := &collector.Report{
		Requests: 1, Completed: 1, InputTokens: 1000, OutputTokens: 5, ProcessedTokens: 1005,
		DurationMS: 60.83882400000002, RequestsPerS: 16.436872612790804, InputTokensPerS: 16436.8726127908,
		OutputTokensPerS: 82.18436306395401, TotalTokensPerS: 16519.056975854757,
		TTFT: all(37.852452), TTST: all(5.746593000000004), TPOT: all(5.746593000000004), ITL: all(5.746593000000004),
		E2E: all(60.83882400000002), UserThroughput: all(174.01615183118054),
	}
	for _, d := range reference.Compare(want, got) {
		t.Error(d)
	}
}

// TestInclusion checks that only requests with an admission and a token count.
func TestInclusion(t *testing.T) {
	c := collector.New(0)
	for id := range sim.RequestID(4) {
		c.Arrive(&sim.Request{ID: id, InputTokens: 10, OutputTokens: 7, Session: int32(id) + 5, Turn: 2}, sim.Time(id))
	}
	c.PlacePrefill(1, 3)
	c.Place(1, 4)
	c.Admit(9, []scheduler.Admission{{Request: 1, Reused: 4}, {Request: 2, Reused: 2}})
	c.Pass(&scheduler.Pass{
		Start: 10, End: 12, Gap: 2, Count: 1,
		Admitted: []scheduler.Admission{{Request: 1, Reused: 3}},
		Marks:    []scheduler.Mark{{Request: 1, First: true, Tokens: 1}, {Request: 3, First: true, Tokens: 1}},
	})
	c.Progress(0, 0, 0)
	r := c.Report(0)
	if r.Requests != 4 || r.Completed != 1 || r.InputTokens != 10 || r.OutputTokens != 7 || r.DurationMS != 12 {
		t.Errorf("got %+v", r)
	}
	if r.PrefixCacheReusedRatio != 0.4 || r.TTFT.Max != 11 || r.ITL != (collector.Distribution{}) {
		t.Errorf("reuse %v, ttft %v, itl %+v", r.PrefixCacheReusedRatio, r.TTFT.Max, r.ITL)
	}
	want := collector.Record{
		Arrival: 1, Admit: 9, First: 12, Last: 12, Tokens: 1, InputTokens: 10, OutputTokens: 7, Reused: 4,
		Worker: 4, PrefillWorker: 3, Session: 6, Turn: 2,
	}
	for id, rec := range c.Requests() {
		if id == 1 && *rec != want {
			t.Errorf("record %d is %+v, want %+v", id, *rec, want)
		}
		if id != 1 && (rec.Counted() || rec.Worker != collector.Nowhere || rec.PrefillWorker != collector.Nowhere) {
			t.Errorf("record %d is %+v, want one that was never placed or counted", id, *rec)
		}
	}
	if c.Len() != 4 {
		t.Errorf("%d requests, want 4", c.Len())
	}
	c.EndedEarly()
	if early := c.Report(0); early.OutputTokens != 1 || early.Completed != 1 {
		t.Errorf("ended early: %d output tokens of %d requests, want 1 of 1", early.OutputTokens, early.Completed)
	}
}

// TestNothing checks that every statistic is 0 without requests, tokens or duration.
func TestNothing(t *testing.T) {
	if got := collector.New(5).Report(0); len(reference.Compare(&collector.Report{}, got)) > 0 {
		t.Errorf("no requests: %+v", got)
	}
	c := collector.New(0)
	c.Arrive(&sim.Request{InputTokens: 3, OutputTokens: 2}, 0)
	c.Pass(&scheduler.Pass{
		Count: 1, Admitted: []scheduler.Admission{{Request: 0}}, Marks: []scheduler.Mark{{Request: 0, First: true, Tokens: 1}},
	})
	c.Pass(&scheduler.Pass{
		Count: 1, Decoding: 1, Second: []sim.RequestID{0}, Marks: []scheduler.Mark{{Request: 0, Last: true, Tokens: 2}},
	})
	got := c.Report(0)
	second := 1e-9 // seconds, used if the duration is 0
	if got.RequestsPerS != 1/second || got.DurationMS != 0 || got.UserThroughput != (collector.Distribution{}) {
		t.Errorf("all at instant 0: %+v", got)
	}
}

func TestArrivalOutOfOrder(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("request 1 arrived first and nobody minded")
		}
	}()
	collector.New(0).Arrive(&sim.Request{ID: 1}, 0)
}

// TestPassDoesNotAllocate checks that a pass allocates no memory after the list of gaps has grown.
func TestPassDoesNotAllocate(t *testing.T) {
	c := collector.New(1)
	c.Arrive(&sim.Request{InputTokens: 3, OutputTokens: 1 << 30}, 0)
	p := &scheduler.Pass{
		Count: 2, Decoding: 3, Gaps: []sim.Time{1, 2, 3},
		Admitted: []scheduler.Admission{{Request: 0}},
	}
	step := func() {
		p.Gap++
		p.Start, p.End = p.End, p.End+2*p.Gap
		c.Pass(p)
	}
	for range 50_000 {
		step()
	}
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations per pass, want 0", n)
	}
}

// TestClipped checks that a shortened answer counts with its actual tokens, and that the report contains the number
// of such answers.
func TestClipped(t *testing.T) {
	c := collector.New(3)
	for id := range 3 {
		c.Arrive(&sim.Request{ID: sim.RequestID(id), InputTokens: 100, OutputTokens: 10 * id}, 0)
	}
	c.Admit(1, []scheduler.Admission{{Request: 0}, {Request: 1}, {Request: 2}})
	c.Pass(&scheduler.Pass{Start: 1, End: 2, Count: 1, Marks: []scheduler.Mark{
		{Request: 0, First: true, Last: true, Tokens: 1}, {Request: 1, First: true, Tokens: 1}, {Request: 2, First: true, Last: true, Tokens: 1}}})
	c.Pass(&scheduler.Pass{Start: 2, End: 3, Count: 1, Marks: []scheduler.Mark{{Request: 1, Last: true, Tokens: 7}}})
	r := c.Report(0)
	var text strings.Builder
	if err := r.WriteText(&text, collector.Text{}); err != nil {
		t.Fatal(err)
	}
	requests, tokens := r.Values()["clipped_requests"], r.Values()["clipped_tokens"]
	if requests != 2 || tokens != 22 || r.OutputTokens != 8 {
		t.Errorf("%v requests lack %v tokens and %d are there, want 2, 22 and 8", requests, tokens, r.OutputTokens)
	}
	if want := "Clipped Outputs: 2 of 3 requests, by 22 tokens that a worker's pool cannot hold\n"; !strings.Contains(text.String(), want) {
		t.Errorf("want %q in\n%s", want, &text)
	}
	if records := c.Records(); records[1].OutputTokens != 7 {
		t.Errorf("%+v, want 7 tokens asked for", records[1])
	}
}

// TestPreemptedApart checks admissions after a preemption. If such admissions are counted separately, their cached
// blocks are not hits and the report contains their cached share. Otherwise the largest reuse of any admission
// counts.
func TestPreemptedApart(t *testing.T) {
	for _, apart := range []bool{false, true} {
		c := collector.New(2)
		if apart {
			c.CountPreemptedApart()
		}
		for id := range 2 {
			c.Arrive(&sim.Request{ID: sim.RequestID(id), InputTokens: 100, OutputTokens: 1}, 0)
		}
		c.Admit(1, []scheduler.Admission{{Request: 0, Reused: 30}, {Request: 1}})
		c.Admit(2, []scheduler.Admission{{Request: 0, Again: true, Reused: 90}})
		c.Admit(3, []scheduler.Admission{{Request: 0, Again: true, Reused: 60}})
		c.Pass(&scheduler.Pass{Start: 3, End: 4, Count: 1, Marks: []scheduler.Mark{{Request: 0, First: true, Last: true, Tokens: 1}, {Request: 1, First: true, Last: true, Tokens: 1}}})
		r := c.Report(0)
		readmissions, found := r.Values()["readmissions"], r.Values()["readmitted_reused_ratio"]
		var text strings.Builder
		if err := r.WriteText(&text, collector.Text{}); err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(text.String(), "Readmissions After Preemption: 2, which found 0.75 of their prompts cached")
		switch {
		case apart && (r.PrefixCacheReusedRatio != 0.15 || readmissions != 2 || found != 0.75 || !said):
			t.Errorf("apart: %v reused, %v readmissions that found %v, want 0.15, 2 and 0.75\n%s", r.PrefixCacheReusedRatio, readmissions, found, &text)
		case !apart && (r.PrefixCacheReusedRatio != 0.45 || readmissions != nil || found != nil || said):
			t.Errorf("together: %v reused, %v readmissions that found %v, want 0.45 and nothing of them\n%s", r.PrefixCacheReusedRatio, readmissions, found, &text)
		}
	}
}
