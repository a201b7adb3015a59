package calibrate

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
)

// replayTrace replays a measured run by its trace on an engine with the rules of the reference.
func replayTrace(t *testing.T, m *Measured, p *measured.Prompts) *harness.Result {
	t.Helper()
	var trace bytes.Buffer
	block, err := m.WriteTrace(&trace, p)
	if err != nil {
		t.Fatal(err)
	}
	args, err := engineargs.Parse([]byte(`{}`), engineargs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec := replay.Spec{Trace: &replay.Trace{Path: "-", Format: formats.Mooncake, BlockTokens: block}, Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(args, 1)}}
	result, err := spec.Run(t.Context(), replay.Streams{Stdin: &trace})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// writeBench writes a result of vllm bench serve with requests of 100 and 20 tokens, in reverse order of arrival. The
// times of the result are the times of a replay multiplied by factor.
func writeBench(t *testing.T, dir string, n int, of *harness.Result, factor float64) {
	t.Helper()
	b := map[string][]any{}
	for i := n - 1; i >= 0; i-- {
		ttft, gap := 0.1, 0.01
		if of != nil {
			r := of.Collector.Records()[i]
			ttft, gap = float64(r.TTFT())/1000*factor, float64(r.TPOT())/1000*factor
		}
		gaps := make([]float64, 19)
		for k := range gaps {
			gaps[k] = gap
		}
		for key, value := range map[string]any{"input_lens": 100 + i, "output_lens": 20, "ttfts": ttft, "itls": gaps, "start_times": 5 + 0.05*float64(i)} {
			b[key] = append(b[key], value)
		}
	}
	text, err := json.Marshal(b)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "bench.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestJudgeRun judges a run that was measured 1.25 times as slow as its replay. All metrics, ITL included, are 20 %
// too low in the replay. Nothing needs to be known about the server.
func TestJudgeRun(t *testing.T) {
	dir := t.TempDir()
	writeBench(t, dir, 24, nil, 1)
	m, err := ReadTimes(dir)
	if err != nil {
		t.Fatal(err)
	}
	writeBench(t, dir, 24, replayTrace(t, m, nil), 1.25)
	if m, err = ReadTimes(dir); err != nil {
		t.Fatal(err)
	}
	if len(m.Settings.Flags()) > 0 || len(m.Settings.Notes) != 1 {
		t.Errorf("settings %v, notes %q of a run without meta.json", m.Settings.Flags(), m.Settings.Notes)
	}
	sets, err := m.Judge(replayTrace(t, m, nil))
	if err != nil || len(sets) != 1 || len(sets[0].Errors) != 4 {
		t.Fatalf("%v %v, want one set and four metrics", sets, err)
	}
	for _, e := range sets[0].Errors {
		if e.Requests != 24 || math.Abs(e.Mean+0.2) > 1e-6 || math.Abs(e.Each-0.2) > 1e-6 {
			t.Errorf("%+v, want means and requests 20 %% below", e)
		}
	}
	if worst := FurthestMean(sets); math.Abs(worst.Mean+0.2) > 1e-6 {
		t.Errorf("furthest off is %+v", worst)
	}
	m.Requests = m.Requests[1:]
	if _, err := m.Judge(replayTrace(t, &Measured{Run: measured.Run{Requests: m.Requests[1:]}}, nil)); err == nil || !strings.Contains(err.Error(), "22 of 23 requests were replayed") {
		t.Errorf("a replay of fewer requests: %v", err)
	}
}

// TestWriteTracePrompts checks that requests keep their prompts in the file, in any order of arrival.
func TestWriteTracePrompts(t *testing.T) {
	dir := t.TempDir()
	writeBench(t, dir, 24, nil, 1)
	m, err := ReadTimes(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "prompts.jsonl")
	var lines strings.Builder
	for i := 23; i >= 0; i-- {
		text, _ := json.Marshal(map[string]any{"input_length": 100 + i, "hash_ids": []int{1, 100 + i}})
		lines.Write(append(text, '\n'))
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := measured.ReadPrompts(path, 64)
	if err != nil {
		t.Fatal(err)
	}
	if reused := replayTrace(t, m, p).Report.PrefixCacheReusedRatio; reused < 0.4 {
		t.Errorf("%.2f of the prompts were reused, want the first block of all but one", reused)
	}
	p.Lengths[3]++
	if _, err := m.WriteTrace(&bytes.Buffer{}, p); err == nil || !strings.Contains(err.Error(), "prompts.jsonl:4: input_length is 121, must be 120 as measured") {
		t.Errorf("prompts of other requests: %v", err)
	}
}
