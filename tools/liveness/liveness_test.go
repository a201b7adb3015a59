package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
)

// Every trial ends within the limit with a report or a known error. SGLang's default rules never stall.
func TestTrialsEnd(t *testing.T) {
	n := uint64(1000)
	if testing.Short() {
		n = 200
	}
	met := make(map[string]int)
	defer func() { t.Logf("%d trials by SGLang's own rules", met["own"]) }()
	for seed := range n {
		e := watchTrial(drawTrial(seed), 20*time.Second) // the machine may be busy
		if e.failed() {
			t.Fatal(e.describe())
		}
		if e.name == "stalled" && e.trial.Tags.Has("sglang") && !e.trial.spec.Compat {
			t.Error(e.describe(), e.trial)
		}
		met[e.kind.String()+e.name]++
		if e.trial.Tags.Has("sglang") && !e.trial.spec.Compat {
			met["own"]++
		}
		if strings.Contains(e.why, " partial true") {
			met["partial"]++
		}
		if e.kind == reported && !strings.Contains(e.why, " 0 rejected") {
			met["rejected"]++
		}
	}
	for _, what := range []string{"report", "erroroversize", "errorstalled", "partial", "rejected", "own"} {
		if met[what] < int(n)/200 || what == "own" && met[what] < int(n)/4 {
			t.Errorf("%q was met %d times in %d, want more: %v", what, met[what], n, met)
		}
	}
}

// A worker leaves while some of its blocks are being loaded back.
func TestWorkerLeavesWithBlocks(t *testing.T) {
	if e := watchTrial(drawTrial(60011), time.Minute); e.failed() {
		t.Error(e.describe())
	}
}

// Each seed always draws the same trial, and every tag occurs.
func TestDraw(t *testing.T) {
	met := make(map[string]int)
	for seed := range uint64(2000) {
		x := drawTrial(seed)
		if !reflect.DeepEqual(x, drawTrial(seed)) {
			t.Fatalf("seed %d draws two trials", seed)
		}
		for _, tag := range x.Tags {
			met[tag]++
		}
	}
	for _, tag := range allTags() {
		if met[tag] < 100 {
			t.Errorf("%q is met %d times in 2000, want at least 100", tag, met[tag])
		}
		delete(met, tag)
	}
	if len(met) > 0 {
		t.Errorf("tags that are not listed: %v", met)
	}
}

// watchTrial distinguishes runs that do not end from runs that end.
func TestWatch(t *testing.T) {
	broken := drawTrial(1)
	broken.spec.Pools[0].Engine.BlockTokens = 0
	if e := watchTrial(broken, time.Minute); e.kind != panicked || !e.failed() || !strings.Contains(e.describe(), "-seed 1\n") {
		t.Errorf("a trial with blocks of nothing: %v", e.describe())
	}
	unnamed := drawTrial(1)
	unnamed.steps, unnamed.spec.Mode, unnamed.spec.MaxInFlight = 1, loadgen.Concurrency, 1
	if e := watchTrial(unnamed, time.Minute); e.kind != wrong || !e.failed() {
		t.Errorf("steps in closed loop: %v", e.describe())
	}
	if e := watchTrial(drawTrial(1), 0); e.kind != late || !e.failed() {
		t.Errorf("a trial without time: %v", e.describe())
	}
}

// A report that omits requests is wrong.
func TestJudge(t *testing.T) {
	for seed := uint64(1); ; seed++ {
		x := drawTrial(seed)
		x.spec.Until = 0
		w, err := x.spec.Open(t.Context(), x.streams())
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.spec.RunOn(t.Context(), w, replay.Streams{})
		if err != nil || len(r.Rejected) > 0 {
			continue
		}
		e := ending{trial: x}
		if e.judgeResult(w, r, nil); e.failed() {
			t.Errorf("seed %d: %s", seed, e.describe())
		}
		for _, record := range r.Collector.Requests() {
			record.Tokens--
			break
		}
		if e.judgeResult(w, r, nil); !e.failed() {
			t.Errorf("seed %d, a token less: %s", seed, e.describe())
		}
		return
	}
}

func TestRun(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"-n", "20", "-patience", "1m", "-v", "-only", "sglang", "-skip", "compat"}, &out, &errs); code != 0 {
		t.Errorf("exit code %d: %s%s", code, &out, &errs)
	}
	if own := strings.Count(out.String(), "sglang "); own != 20 || strings.Contains(out.String(), " compat ") {
		t.Errorf("%d runs of SGLang, want 20 and none with compat:\n%s", own, &out)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; len(lines) < 21 || !strings.HasPrefix(last, "runs 20, reports ") || !strings.HasSuffix(last, "slow 0, panics 0, other 0") {
		t.Errorf("%d lines, the last %q", len(lines), last)
	}
}

// An unknown tag is rejected, since the search for a run would never end.
func TestUnknownTag(t *testing.T) {
	var out, errs strings.Builder
	if code := run([]string{"-only", "sglagn"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), `"sglagn", did you mean sglang?`) {
		t.Errorf("exit %d, %s%s", code, &out, &errs)
	}
}
