package explain_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/explain"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// recorded returns a busy run of two workers, with seats for four requests each.
func recorded(t *testing.T) *explain.Run {
	t.Helper()
	a := engineargs.Default()
	a.MaxSeqs, a.Blocks = 4, 1000
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 60, Input: 700, Output: 30, Interval: 20},
		Mode:      loadgen.Trace, Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(a, 2), Seed: 1},
	}
	engine, err := ledger.NewEngine(&a)
	if err != nil {
		t.Fatal(err)
	}
	run := &explain.Run{Trace: "made.jsonl", Log: new(ledger.Log)}
	seen := new(requests.Recorder)
	book := ledger.NewBook(run.Log, engine)
	result, err := spec.Run(context.Background(), replay.Streams{Observer: both{book, seen}})
	if err != nil {
		t.Fatal(err)
	}
	run.Rows = requests.Collect(result.Collector, nil, seen, book)
	for i := range run.Rows {
		if !run.Rows[i].Explained() {
			t.Fatalf("request %d has no ledger", i)
		}
		run.Rows[i].Line = requests.Count(i + 1)
	}
	return run
}

// The time that is attributed to other requests is at most the waiting time of a request. If there are other
// requests, the attributed time equals the waiting time.
func TestBlameSumsToWhatWasWaited(t *testing.T) {
	run := recorded(t)
	queued, held := 0, 0
	for id := range run.Rows {
		r := &run.Rows[id]
		blamed := 0.0
		for _, h := range run.Blame(id) {
			if h.Request == id || h.Prefill < 0 || h.Ahead < 0 || h.Decode < 0 {
				t.Errorf("request %d is held up by %+v", id, h)
			}
			blamed += h.Total()
		}
		waited := float64(r.Parts[ledger.Queue] + r.Parts[ledger.Others] + r.Parts[ledger.Stretched])
		if blamed > waited+1e-6 {
			t.Errorf("request %d waited %v ms and blames %v ms on others", id, waited, blamed)
		}
		if r.Parts[ledger.Queue] > 20 {
			queued++
			if blamed < waited-1e-6 {
				t.Errorf("request %d waited %v ms, and blames %v ms on others", id, waited, blamed)
			}
		}
		if blamed > 0 {
			held++
		}
	}
	if queued < 10 || held < 40 {
		t.Errorf("%d requests waited long and %d were held up, want many", queued, held)
	}
}

func TestFind(t *testing.T) {
	run := recorded(t)
	run.Rows[7].Session, run.Rows[7].Turn = "talk", 2
	for name, want := range map[string]int{"0": 0, "59": 59, "made.jsonl:8": 7, ":8": 7, filepath.Join("a", "made.jsonl:8"): 7, "talk#2": 7} {
		if got, err := run.Find(name); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"60": "requests 0 to 59", "-1": "requests 0 to 59", "other.jsonl:8": "replayed made.jsonl", ":99": "no request",
		"talk#3": "no such turn", "fastest": "must be the id",
	} {
		if got, err := run.Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v, want an error that says %q", name, got, err, want)
		}
	}
	slowest := run.Slowest(5)
	for i := 1; i < len(slowest); i++ {
		if run.Rows[slowest[i]].E2E > run.Rows[slowest[i-1]].E2E {
			t.Errorf("slowest are %v, want them in order", slowest)
		}
	}
}

// A request without a ledger, or without an end, is reported as such.
func TestTextWithoutLedger(t *testing.T) {
	run := recorded(t)
	run.Rows[1].Parts[0] = requests.Unknown()
	run.Rows[2].Tokens = 3
	for id, want := range map[int]string{0: "end to end", 1: "recorded without ledgers", 2: "has not finished: 3 of 30 tokens"} {
		var b bytes.Buffer
		if err := run.WriteText(&b, id); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("request %d: %v\n%s\nwant %q", id, err, &b, want)
		}
	}
}

// A written log is read back unchanged.
func TestLogReadsBack(t *testing.T) {
	run := recorded(t)
	path := filepath.Join(t.TempDir(), ledger.WorkFile)
	if err := collector.WriteFile(path, run.Log.Write); err != nil {
		t.Fatal(err)
	}
	back, err := ledger.ReadLog(path)
	if err != nil || len(back.Work) != len(run.Log.Work) || len(back.Work) < 60 {
		t.Fatalf("%v; %d rows, want %d", err, len(back.Work), len(run.Log.Work))
	}
	for i := range back.Work {
		if back.Work[i] != run.Log.Work[i] {
			t.Errorf("row %d is %+v, want %+v", i, back.Work[i], run.Log.Work[i])
		}
	}
}

// both passes a replay to two observers.
type both [2]harness.Observer

func (b both) Arrived(q *sim.Request, at sim.Time) {
	for _, o := range b {
		o.Arrived(q, at)
	}
}

func (b both) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	for _, o := range b {
		o.Routed(stage, at, p)
	}
}

func (b both) Handoff(id sim.RequestID, from, to sim.Time) {
	for _, o := range b {
		o.Handoff(id, from, to)
	}
}

func (b both) Left(d *harness.Departure) {
	for _, o := range b {
		o.Left(d)
	}
}

func (b both) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	for _, o := range b {
		o.Pass(stage, w, p)
	}
}
