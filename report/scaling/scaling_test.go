package scaling

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/failures"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// play returns the result of a replay in which a request arrives every 10 ms. The TTFT is 20 ms except in the given
// time spans.
func play(requests int, slow ...[2]sim.Time) *harness.Result {
	c := collector.New(0)
	for i := range requests {
		id, at, ttft := sim.RequestID(i), sim.Time(10*i), sim.Time(20)
		for _, s := range slow {
			if at >= s[0] && at < s[1] {
				ttft = 60
			}
		}
		c.Arrive(&sim.Request{ID: id, Session: int32(id), InputTokens: 10, OutputTokens: 1}, at)
		p := scheduler.Pass{Start: at, End: at + ttft, Count: 1, Gap: ttft, Admitted: []scheduler.Admission{{Request: id}}}
		p.AddToken(id, 1, 1, 0, false)
		c.Pass(&p)
	}
	return &harness.Result{Collector: c, Report: c.Report(0)}
}

// scaled returns a run with one worker. The run adds a second worker at 1 s and a third worker at 2 s, each with a
// startup time of 1.5 s, and removes one worker at 6 s and one at 7 s.
func scaled() *harness.Result {
	r := play(1000, [2]sim.Time{500, 2700}, [2]sim.Time{6500, 7100})
	s := harness.NewScaling(scheduler.Aggregated)
	s.End = 10_000
	s.Acts = []harness.ScalingAct{{At: 1000, From: 1, To: 2}, {At: 2000, From: 2, To: 3, Why: "waiting is 9"}, {At: 6000, From: 3, To: 2}, {At: 7000, From: 2, To: 1}}
	for _, z := range []harness.PoolSize{{At: 0, Ready: 1}, {At: 1000, Ready: 1, Starting: 1}, {At: 2000, Ready: 1, Starting: 2}, {At: 2500, Ready: 2, Starting: 1}, {At: 3500, Ready: 3}, {At: 6000, Ready: 2}, {At: 7000, Ready: 1}} {
		s.SetSize(z)
	}
	r.Scaling = append(r.Scaling, s)
	return r
}

// Each request that missed the goal belongs to the latest action with the arrival in its span, or to none.
func TestJudge(t *testing.T) {
	s := Judge(scaled(), play(1000), failures.Goal{})
	want := []Act{
		{Number: 1, AtMS: 1000, From: 1, To: 2, UntilMS: 2500, Ready: true, Requests: 100, Missed: 100, ExtraTTFT: 40, ExtraE2E: 40, WorstExtra: 40, Worst: 100},
		{Number: 2, AtMS: 2000, From: 2, To: 3, Why: "waiting is 9", UntilMS: 3500, Ready: true, Requests: 150, Missed: 70, ExtraTTFT: 40 * 70. / 150, ExtraE2E: 40 * 70. / 150, WorstExtra: 40, Worst: 200},
		{Number: 3, AtMS: 6000, From: 3, To: 2, UntilMS: 7000, Requests: 100, Missed: 50, ExtraTTFT: 20, ExtraE2E: 20, WorstExtra: 40, Worst: 650},
		{Number: 4, AtMS: 7000, From: 2, To: 1, UntilMS: 10_000, Requests: 300, Missed: 10, ExtraTTFT: 40 * 10. / 300, ExtraE2E: 40 * 10. / 300, WorstExtra: 40, Worst: 700},
	}
	if !reflect.DeepEqual(s.Acts, want) {
		t.Errorf("got  %+v\nwant %+v", s.Acts, want)
	}
	if got, want := s.Line(), "Missed the goal: 280 of 1000 requests: 170 while workers were starting, 60 after workers were let go, 50 at other times; goal of each: TTFT and TPOT at most 25 % (and 1 ms) above its own with 3 workers all along"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s.Versus != "with 3 workers all along" || !strings.Contains(s.Goal, s.Versus) {
		t.Errorf("compared with %q, goal %q", s.Versus, s.Goal)
	}
}

// The span of an action ends if the added workers are no longer requested before they are ready.
func TestJudgeUnready(t *testing.T) {
	r := scaled()
	r.Scaling[0].Acts = append(r.Scaling[0].Acts[:1], harness.ScalingAct{At: 1800, From: 2, To: 1})
	s := Judge(r, nil, failures.Goal{})
	if a := s.Acts[0]; a.UntilMS != 1800 || a.Ready {
		t.Errorf("%+v", a)
	}
	if s.Line() != "" {
		t.Errorf("nothing was compared: %s", s.Line())
	}
}

// A written study is read back and printed; a study without actions is an error.
func TestFile(t *testing.T) {
	s, dir := Judge(scaled(), play(1000), failures.Goal{}), t.TempDir()
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--autoscale") {
		t.Errorf("without a file: %v", err)
	}
	var text, told bytes.Buffer
	if err := s.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Fatalf("%+v, %v; want %+v", got, err, s)
	}
	a, err := got.Find(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.WriteText(&told, a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Act 2 of 4 at 2s: workers from 2 to 3\nWhy: waiting is 9\nThe workers were ready after 1.5s.\n", "150, of which\n  70 missed theirs (TTFT and TPOT at most 25 % (and 1 ms) above its own with 3\n  workers all along)", "40.00 ms, request 200", "missed\n"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("%s\nwant %s", told.String(), want)
		}
	}
	for _, n := range []int{-1, 0, 5} {
		if _, err := got.Find(n); err == nil || !strings.Contains(err.Error(), "must be 1 to 4") {
			t.Errorf("act %d: %v", n, err)
		}
	}
}

// A run without scaling has no action to show.
func TestFindNone(t *testing.T) {
	if _, err := new(Study).Find(1); err == nil || !strings.Contains(err.Error(), "there was none") {
		t.Errorf("error %v, want that there was none", err)
	}
}
