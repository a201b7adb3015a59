package measured

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
)

// settingsOf reads settings with some text replaced.
func settingsOf(t *testing.T, replace ...string) Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meta.json")
	measuredtest.Write(t, path, measuredtest.Meta(replace...))
	s, err := readSettings(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSettings checks that each setting is read from the place with the highest precedence.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       func(*Settings) bool
	}{
		{"", "", func(s *Settings) bool {
			return s.MaxSeqs == 16 && s.MaxBatchedTokens == 512 && s.Blocks == 400 && s.BlockTokens == 16 && s.Async && s.PrefixCaching &&
				s.ChunkedPrefill && s.ReserveWhole && s.DataParallel == 1 && s.TensorParallel == 1 && len(s.Graphs) == 7 && len(s.Open) == 0 && s.checkModelled() == nil
		}},
		{`"policy":`, `"max_num_seqs":9,"policy":`, func(s *Settings) bool { return s.MaxSeqs == 9 }},
		{`"max_num_seqs":16`, `"max_num_seqs":0`, func(s *Settings) bool { return len(s.missing) == 1 }},
		{`"max_num_seqs":16`, `"max_num_seqs":1`, func(s *Settings) bool { return s.MaxSeqs == 1 && len(s.missing) == 0 }},
		{`"policy":`, `"max_num_scheduled_tokens":99,"policy":`, func(s *Settings) bool { return s.MaxBatchedTokens == 99 }},
		{`"policy":`, `"max_num_scheduled_tokens":0,"policy":`, func(s *Settings) bool { return s.MaxBatchedTokens == 512 }},
		{`"block_size":16`, `"num_gpu_blocks_override":7`, func(s *Settings) bool { return s.Blocks == 7 && s.BlockTokens == 16 }},
		{`"block_size":16`, `"block_size":32,"num_kv_tokens":320`, func(s *Settings) bool { return s.Blocks == 400 && s.BlockTokens == 32 }},
		{`"num_gpu_blocks":400`, `"num_kv_tokens":330`, func(s *Settings) bool { return s.Blocks == 20 }},
		{`"block_size":16`, `"block_size":2`, func(s *Settings) bool { return s.BlockTokens == 2 && len(s.refusals) == 0 }},
		{`"block_size":16`, `"block_size":1`, func(s *Settings) bool { return len(s.refusals) == 1 }},
		{`"async_scheduling":true`, `"async_scheduling":false`, func(s *Settings) bool { return !s.Async && len(s.Open) == 0 }},
		{`"async_scheduling":true,`, ``, func(s *Settings) bool { return s.Async && len(s.Open) == 1 }},
		{`"policy":`, `"enable_prefix_caching":false,"enable_chunked_prefill":false,"scheduler_reserve_full_isl":false,"long_prefill_token_threshold":5,"tensor_parallel_size":4,"policy":`,
			func(s *Settings) bool {
				return !s.PrefixCaching && !s.ChunkedPrefill && !s.ReserveWhole && s.LongPrefillTokens == 5 && s.TensorParallel == 4
			}},
		{`"data_parallel_size":1`, `"data_parallel_size":2`, func(s *Settings) bool {
			return s.DataParallel == 2 && !s.Lockstep && s.Blocks == 200 && len(s.Open) == 1 && len(s.Notes) == 1
		}},
		{`"data_parallel_size":1`, `"data_parallel_size":2,"is_moe_model":true`, func(s *Settings) bool { return s.Lockstep && strings.Contains(s.Notes[0], "in lockstep") }},
		{`"policy":`, `"enforce_eager":true,"policy":`, func(s *Settings) bool { return s.Graphs == nil }},
		{`"policy":`, `"cudagraph_capture_sizes":[1,2,2,8,4],"policy":`, func(s *Settings) bool { return slices.Equal(s.Graphs, []int{1, 2, 4, 8}) }},
		{`"policy":`, `"pipeline_parallel_size":1,"sliding_window":null,"kv_transfer_config":false,"enable_dbo":false,"policy":`, func(s *Settings) bool { return len(s.refusals) == 0 }},
		{`"policy":`, `"pipeline_parallel_size":2,"sliding_window":5,"enable_dbo":true,"policy":`, func(s *Settings) bool { return len(s.refusals) == 3 }},
		{`"policy":"fcfs"`, `"policy":""`, func(s *Settings) bool { return len(s.refusals) == 0 }},
	} {
		s := settingsOf(t, c.from, c.to)
		if c.from == "" {
			s = settingsOf(t)
		}
		if !c.ok(&s) {
			t.Errorf("%s: %+v", c.to, s)
		}
	}
	two := settingsOf(t, `"data_parallel_size":1`, `"data_parallel_size":2`)
	two.Open[0].Other(&two)
	late := settingsOf(t, `"async_scheduling":true,`, ``)
	late.Open[0].Other(&late)
	if two.Blocks != 400 || late.Async {
		t.Errorf("the other choices: %d blocks, two passes in flight %v", two.Blocks, late.Async)
	}
}

// TestResolveOpen checks a missing number of blocks. Depending on the samples, the number is assumed to be
// sufficient, estimated, or reported as missing.
func TestResolveOpen(t *testing.T) {
	requests := []Request{{Input: 100, Output: 60, Scheduled: 0, First: 1, Last: 11}}
	// There are 16 seats, and 90 % of them are 14.4.
	queue := sample{at: 1, running: 13, waiting: 4}
	for _, c := range []struct {
		name   string
		load   []sample
		blocks int // 0: missing
	}{
		{"no series", nil, 0},
		{"no queue", []sample{{running: 3, waiting: 3}}, 16*12 + 1},
		{"all seats taken", []sample{{running: 14, waiting: 9}, {running: 16}}, 16*12 + 1},
		{"a queue, seen too rarely", []sample{queue, queue}, 0},
		{"a queue before all seats were taken", []sample{queue, queue, queue, {running: 16}}, 16*12 + 1},
	} {
		s := settingsOf(t, `"num_gpu_blocks":400`, `"other":1`)
		s.resolveOpen("H100_Llama", requests, c.load)
		if missing := len(s.missing) > 0; missing != (c.blocks == 0) || !missing && s.Blocks != c.blocks || s.GPU != "H100" {
			t.Errorf("%s: %d blocks of %s, missing %v; want %d", c.name, s.Blocks, s.GPU, s.missing, c.blocks)
		}
	}
	s := settingsOf(t)
	s.GPU = "mine"
	s.resolveOpen("H100_Llama", requests, nil)
	if s.Blocks != 400 || s.GPU != "mine" || len(s.missing) > 0 {
		t.Errorf("what is known changed to %d blocks of %s", s.Blocks, s.GPU)
	}
	if got := gpuOf("Abacus_Llama"); got != "" {
		t.Errorf("an unknown GPU is %q", got)
	}
}

// TestBlocksInUse compares the blocks in use with numbers computed by hand. The requests are one with 100 tokens that
// is halfway through an answer of 60 tokens, one before its first token, and a preempted one.
func TestBlocksInUse(t *testing.T) {
	requests := []Request{
		{Input: 100, Output: 61, Scheduled: 0, First: 1, Last: 11}, // 100 + 1 + 30 tokens at 6 s
		{Input: 33, Output: 9, Scheduled: 5, First: 7, Last: 9},    // 33 tokens
		{Input: 500, Output: 9, Scheduled: 5.5, First: 7, Last: 9},
		{Input: 16, Output: 1, Scheduled: math.NaN(), First: 6.5, Last: 6.5},
		{Input: 16, Output: 1, Scheduled: 1, First: 2, Last: 6}, // ended at 6 s
	}
	if got := blocksInUse(16, requests, sample{at: 6, running: 2}); got != 9+3 {
		t.Errorf("%v blocks in use, want 12", got)
	}
	if got := blocksInUse(16, requests, sample{at: 6, running: 9}); got != 9+3+32 {
		t.Errorf("%v blocks in use by all that run, want 44", got)
	}
	load := slices.Repeat([]sample{{at: 6, running: 2, waiting: 4}}, 3)
	if got := estimateBlocks(16, 4, requests, load); got != 12 { // 12 / 0.985
		t.Errorf("%d blocks, want 12", got)
	}
	for name, change := range map[string]func(*sample){
		"no queue": func(s *sample) { s.waiting = 3 }, "no seat": func(s *sample) { s.running = 3 }, "nothing runs": func(s *sample) { s.running = 0 },
	} {
		other := slices.Clone(load)
		change(&other[0])
		if got := estimateBlocks(16, 4, requests, other); got != 0 {
			t.Errorf("%s: %d blocks by two samples, want none", name, got)
		}
	}
}

// TestAlignDrift checks that the drift of clocks is corrected minute by minute. A run of two minutes has only one
// difference.
func TestAlignDrift(t *testing.T) {
	run := func(last float64) *Run {
		m := &Run{Requests: []Request{{Arrival: last, Queued: last + 3}, {Arrival: 0, Queued: 1}, {Arrival: 70, Queued: 72, First: 80, Last: 90}}}
		m.alignClocks()
		return m
	}
	for i, want := range []float64{0, 71, 152} {
		if got := run(150).Requests[i].Arrival; got != want {
			t.Errorf("request %d of 150 s arrives at %v, want %v", i, got, want)
		}
	}
	for i, want := range []float64{0, 70, 120} {
		if got := run(120).Requests[i].Arrival; got != want {
			t.Errorf("request %d of 120 s arrives at %v, want %v", i, got, want)
		}
	}
	shared := &Run{Requests: []Request{{Arrival: 0, Queued: 1}, {Arrival: 70, Queued: 73}, {Arrival: 100, Queued: 102}, {Arrival: 150, Queued: 153}}}
	shared.alignClocks()
	if got := shared.Requests[1].Arrival; got != 71 {
		t.Errorf("a minute has the smallest of its differences: an arrival at %v, want 71", got)
	}
	if r := run(150).Requests[1]; r.Queued != 71 || r.First != 79 || r.Last != 89 {
		t.Errorf("request 1 is %+v", r)
	}
	m := &Run{Requests: []Request{{Arrival: math.NaN(), Queued: 5}, {Arrival: 900, Queued: 4}}}
	m.alignClocks()
	if m.Requests[0].Arrival != 0 || m.Requests[1].Arrival != 1 {
		t.Errorf("without all arrivals: %+v", m.Requests)
	}
}

// TestSeries reads the samples of a server line by line.
func TestSeries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timeseries.csv")
	if all, err := readSeries(path); all != nil || err != nil {
		t.Errorf("no file: %v, %v", all, err)
	}
	for _, c := range []struct {
		text string
		want string
	}{
		{"", "[]"},
		{"t,running,waiting,kv_cache_pct\n1.5,2,3,50\n2,x,1,9\n", "[{1.5 2 3 0.5}]"},
		{"running,waiting\n4,5\n", "[{NaN 4 5 NaN}]"},
		{"t,running\n1,2\n", "[]"},
	} {
		measuredtest.Write(t, path, c.text)
		all, err := readSeries(path)
		if got := fmt.Sprint(all); err != nil || got != c.want {
			t.Errorf("%q: %v, %v; want %s", c.text, got, err, c.want)
		}
	}
	measuredtest.Write(t, path, "a,b\n1\n")
	if _, err := readSeries(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a short line: %v", err)
	}
	if _, err := readSeries(filepath.Dir(path)); err == nil {
		t.Error("a folder is read")
	}
}

// TestAIPerf checks which lines of AIPerf count, by unit and phase.
func TestAIPerf(t *testing.T) {
	line := func(start, phase, unit, more string) string {
		return fmt.Sprintf(`{"metadata":{%s"benchmark_phase":"%s"},"metrics":{"time_to_first_token":{"value":2,"unit":"%s"},"request_latency":{"value":2,"unit":"%s"},"input_sequence_length":{"value":1},"output_sequence_length":{"value":1}}%s}`,
			start, phase, unit, unit, more)
	}
	start := `"request_start_ns":5e9,`
	good := slices.Repeat([]string{line(start, "profiling", "ms", "")}, 19)
	for _, c := range []struct {
		line string
		ttft float64 // -1: the line does not count, and 19 lines are too few
	}{
		{line(start, "profiling", "ns", ""), 2e-9}, {line(start, "", "us", ""), 2e-6}, {line(start, "", "ms", ""), 2e-3},
		{line(start, "", "s", ""), 2}, {line(start, "", "sec", ""), 2}, {line(start, "warmup", "s", ""), -1},
		{line(start, "", "s", `,"error":{"code":1}`), -1}, {line(start+`"was_cancelled":true,`, "", "s", ""), -1}, {"  ", -1},
	} {
		path := filepath.Join(t.TempDir(), "profile_export.jsonl")
		measuredtest.Write(t, path, c.line+"\n"+strings.Join(good, "\n"))
		all, failed, err := readAIPerf(path)
		if c.ttft < 0 {
			if err == nil || !strings.Contains(err.Error(), "19 requests, must be at least 20") || failed != strings.Count(c.line, "error")+strings.Count(c.line, "was_cancelled") {
				t.Errorf("%s: %v, %d failed", c.line, err, failed)
			}
			continue
		}
		if err != nil || len(all) != 20 || !near(all[0].First-5, c.ttft) || all[0].Arrival != 5 || all[19].Place != 19 {
			t.Errorf("%s: %+v, %v", c.line, all, err)
		}
	}
	for _, bad := range []string{line("", "", "s", ""), strings.Replace(line(start, "", "s", ""), `"value":2,"unit":"s"},"request_latency"`, `"value":3,"unit":"s"},"request_latency"`, 1),
		strings.Replace(line(start, "", "s", ""), `{"value":1}`, `{"value":0}`, 1), "{"} {
		path := filepath.Join(t.TempDir(), "profile_export.jsonl")
		measuredtest.Write(t, path, "\n"+bad)
		if _, _, err := readAIPerf(path); err == nil || !strings.Contains(err.Error(), "profile_export.jsonl:2: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestBench checks that the lists of vllm bench serve must have equal lengths, and that failed requests do not count.
func TestBench(t *testing.T) {
	list := func(n int, value string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + "]"
	}
	text := func(in, out, ttfts, itls, starts string, more string) string {
		return fmt.Sprintf(`{"input_lens":%s,"output_lens":%s,"ttfts":%s,"itls":%s,"start_times":%s%s}`, in, out, ttfts, itls, starts, more)
	}
	one := func(n int) string { return list(n, "1") }
	for _, c := range []struct{ name, text, want string }{
		{"good", text(one(20), one(20), one(20), list(20, "[]"), one(20), ""), ""},
		{"no lists", "{}", "none"},
		{"not JSON", "\n{", "result.json:2: JSON ends early at column 2, must be a string"},
		{"short outputs", text(one(20), one(19), one(20), list(20, "[]"), one(20), ""), "20 input_lens, 19 output_lens"},
		{"short ttfts", text(one(20), one(20), one(19), list(20, "[]"), one(20), ""), "19 ttfts"},
		{"short itls", text(one(20), one(20), one(20), list(19, "[]"), one(20), ""), "19 itls"},
		{"short starts", text(one(20), one(20), one(20), list(20, "[]"), one(19), ""), "19 start_times for 20 requests"},
		{"no input", text(list(20, "0"), one(20), one(20), list(20, "[]"), one(20), ""), "request 0 has 0 input and 1 output"},
		{"no output", text(one(20), list(20, "0"), one(20), list(20, "[]"), one(20), ""), "0 requests, must be at least 20"},
		{"no starts", text(one(20), one(20), one(20), list(20, "[]"), "[]", `,"request_rate": 4.0`), "a request_rate that is not inf"},
		{"two runs", strings.Repeat(text(one(20), one(20), one(20), list(20, "[]"), one(20), "")+"\n", 2), "2 runs, must be a file of one"},
		{"a failure", text(one(20), one(20), one(20), list(20, "[]"), one(20), `,"errors":["",null,"lost"]`), "19 requests, must be at least 20"},
	} {
		path := filepath.Join(t.TempDir(), "result.json")
		measuredtest.Write(t, path, c.text)
		m := &Run{}
		found, err := m.readGenerated(path)
		all := m.Requests
		switch {
		case c.want == "":
			if err != nil || !found || len(all) != 20 || all[3].Last != 2 {
				t.Errorf("%s: %+v, %v", c.name, all, err)
			}
		case c.want == "none":
			if found || err != nil {
				t.Errorf("%s: found %v, %v", c.name, found, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := (&Run{}).readGenerated(t.TempDir()); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a folder: %v", err)
	}
}

// TestAlign checks that the clocks of front end and engine differ by the smallest difference. Requests that waited
// for the end of a pass have larger differences.
func TestAlign(t *testing.T) {
	m := &Run{Requests: []Request{
		{Arrival: 1000, Queued: 5.010, First: 6, Last: 7},
		{Arrival: 1001, Queued: 6.002, First: 7, Last: 8},
		{Arrival: 1002, Queued: 7.200, First: 8, Last: 9},
	}}
	m.alignClocks()
	for i, want := range []float64{0, 1, 2} {
		if r := m.Requests[i]; math.Abs(r.Arrival-want) > 1e-9 || math.Abs(r.First-r.Arrival-0.998) > 1e-9 {
			t.Errorf("request %d arrives at %v, %v before its first token", i, r.Arrival, r.First-r.Arrival)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }
