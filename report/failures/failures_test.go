package failures

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// phase is the TTFT of requests that arrive in a time span. A negative TTFT means that these requests are lost.
type phase struct {
	requests int
	ttft     sim.Time
}

// play returns the result of a replay in which a request arrives every 10 ms.
func play(phases ...phase) *harness.Result {
	c := collector.New(0)
	c.KeepOutcomes()
	at := sim.Time(0)
	for _, s := range phases {
		for range s.requests {
			id := sim.RequestID(c.Len())
			c.Arrive(&sim.Request{ID: id, Session: int32(id), InputTokens: 10, OutputTokens: 1}, at)
			if s.ttft < 0 {
				c.GiveUp(id, collector.Lost, 0, 0)
			} else {
				p := scheduler.Pass{Start: at, End: at + s.ttft, Count: 1, Gap: s.ttft, Admitted: []scheduler.Admission{{Request: id}}}
				p.AddToken(id, 1, 1, 0, false)
				c.Pass(&p)
			}
			at += 10
		}
	}
	return &harness.Result{Collector: c, Report: c.Report(0)}
}

// The goal is met again with the first of three consecutive windows that meet it.
func TestRecovery(t *testing.T) {
	calm := play(phase{1200, 20})
	objectives, err := slo.Parse("p99:ttft=30ms")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		phases []phase
		goal   Goal
		want   string
	}{
		{[]phase{{1200, 20}}, Goal{}, "later arrivals met the objective"},
		{[]phase{{1200, 26}}, Goal{}, "later arrivals met the objective"},                                           // 25 % and 1 ms
		{[]phase{{500, 20}, {100, 40}, {600, 20}}, Goal{}, "the goal was met again after 1s"},                       // ten windows of 100 ms
		{[]phase{{500, 20}, {20, 40}, {20, 20}, {20, 40}, {640, 20}}, Goal{}, "the goal was met again after 600ms"}, // two windows do not suffice
		{[]phase{{500, 20}, {100, -1}, {600, 20}}, Goal{}, "the goal was met again after 1s"},
		{[]phase{{500, 20}, {700, 40}}, Goal{}, "the goal was not met again in the 7.03s that followed"},
		{[]phase{{500, 20}, {100, 29}, {600, 20}}, Goal{Objectives: objectives, Share: 1}, "later arrivals met the objective"},
		{[]phase{{500, 20}, {100, 31}, {600, 20}}, Goal{Objectives: objectives, Share: 1}, "the goal was met again after 1s"},
	} {
		with := play(c.phases...)
		with.Incidents = []harness.Incident{{At: 5000, What: "worker 1 dies"}}
		s := Judge(with, calm, c.goal)
		if got := s.Events[0].recovery(); got != c.want {
			t.Errorf("%v: %s, want %s", c.phases, got, c.want)
		}
	}
}

// If no request arrives after an event, the goal is neither met nor missed.
func TestNobodyCameAfter(t *testing.T) {
	with := play(phase{500, 20})
	with.Incidents = []harness.Incident{{At: 4990, What: "worker 1 dies"}}
	s := Judge(with, play(phase{500, 20}), Goal{})
	if e := &s.Events[0]; e.Later != 0 || e.recovery() != "no request arrived after it" {
		t.Errorf("%d came after it, and %s", e.Later, e.recovery())
	}
	with.Incidents[0].At = 4980
	if e := Judge(with, play(phase{500, 20}), Goal{}).Events[0]; e.Later != 1 || e.recovery() != "later arrivals met the objective" {
		t.Errorf("%d came after it, and %s", e.Later, e.recovery())
	}
}

// Objectives of a class apply only to its requests. Each class must meet its objectives.
func TestGoalOfClass(t *testing.T) {
	calm, with := play(phase{1200, 20}), play(phase{500, 20}, phase{100, 40}, phase{600, 20})
	with.Incidents = []harness.Incident{{At: 5000, What: "worker 1 dies"}}
	for _, c := range []struct {
		objectives string
		share      float64
		slow       string // the class of one in ten
		want       string
	}{
		{"chat:p99:ttft=30ms", 1, "chat", "the goal was met again after 1s"},
		{"chat:p99:ttft=30ms", 1, "batch", "later arrivals met the objective"},
		{"chat:each:ttft=30ms", 1, "batch", "later arrivals met the objective"},
		{"chat:each:ttft=30ms,ttft=1s", 0.5, "chat", "the goal was met again after 1s"}, // nine tenths of the requests with objectives meet them
	} {
		objectives, err := slo.Parse(c.objectives)
		if err != nil {
			t.Fatal(err)
		}
		s := Judge(with, calm, Goal{Objectives: objectives, Share: c.share, ClassOf: func(session, _ int32) string {
			if session%10 == 0 {
				return c.slow
			}
			return "others"
		}})
		if got := s.Events[0].recovery(); got != c.want {
			t.Errorf("%s, slow ones are %s: %s, want %s", c.objectives, c.slow, got, c.want)
		}
	}
}

// A written study can be read back and printed. A study without faults is an error.
func TestFile(t *testing.T) {
	with := play(phase{500, 20}, phase{100, 40}, phase{600, 20})
	with.Incidents = []harness.Incident{
		{At: 5000, What: "worker 1 dies", Workers: [2][]sim.WorkerID{{1}}, EventCost: collector.EventCost{Lost: 1, LostTokens: 7}},
		{At: 9000, What: "the router restarts"},
	}
	s := Judge(with, play(phase{1200, 20}), Goal{})
	dir := t.TempDir()
	var text bytes.Buffer
	if err := s.Write(&text); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "this run has no faults") {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Fatalf("%+v, %v; want %+v", got, err, s)
	}
	want := []string{
		"Fault 1 at 5s: worker 1 dies: 1 request lost, 7 tokens lost; the goal was met again after 1s",
		"Faults: and 1 more",
	}
	if lines := got.Lines(1); !reflect.DeepEqual(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	if e := &s.Events[0]; e.Requests != 102 || e.ExtraTTFT < 19 || e.ExtraTTFT > 20 {
		t.Errorf("%d requests, %v ms more", e.Requests, e.ExtraTTFT)
	}
	for _, n := range []int{-1, 0, 3} {
		if _, err := got.Find(n); err == nil || !strings.Contains(err.Error(), "must be 1 to 2") {
			t.Errorf("fault %d: %v", n, err)
		}
	}
}

// A run that ended before its first event has no event to show.
func TestFindNone(t *testing.T) {
	if _, err := new(Study).Find(1); err == nil || !strings.Contains(err.Error(), "none had happened") {
		t.Errorf("error %v, want that none had happened", err)
	}
}
