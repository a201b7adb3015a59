package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// pullCase is a workload with the results of vLLM's prefill and decode engines, written by tools/vllmoracle.
type pullCase struct {
	Name     string            `json:"name"`
	Profile  string            `json:"profile"`
	Settings map[string]any    `json:"settings"`
	Tokens   int               `json:"trace_block_size"`
	Timing   json.RawMessage   `json:"timing"`
	Rows     []json.RawMessage `json:"rows"`
	Columns  []string          `json:"columns"`
	Requests [][]*float64      `json:"requests"`
}

// command returns the command line that replays c, with files in dir.
func (c *pullCase) command(t *testing.T, dir string) []string {
	var trace []byte
	for _, row := range c.Rows {
		trace = append(append(trace, row...), '\n')
	}
	for name, content := range map[string][]byte{"trace.jsonl": trace, "times.json": c.Timing} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mode, ok := c.Settings["kv_transfer"].(string)
	if !ok {
		mode = "pull"
	}
	engine, args := maps.Clone(c.Settings), []string{"trace", filepath.Join(dir, "trace.jsonl"), "--kv-transfer=" + mode, "--trace-format=mooncake"}
	delete(engine, "kv_transfer")
	engine["scheduler_profile"] = c.Profile
	if policy, ok := engine["policy"]; ok {
		engine["scheduling_policy"] = policy
		delete(engine, "policy")
	}
	engine["scheduler_rules"] = map[string]any{
		"reserve_whole": c.Settings["scheduler_reserve_full_isl"], "long_prefill_tokens": c.Settings["long_prefill_token_threshold"],
		"two_in_flight": c.Settings["async_scheduling"],
	}
	for key, flag := range map[string]string{
		"prefill_workers": "prefill-workers", "decode_workers": "decode-workers", "decode_num_gpu_blocks": "decode-num-gpu-blocks",
		"kv_transfer_latency_ms": "kv-transfer-latency-ms",
	} {
		args = append(args, "--"+flag+"="+strconv.FormatFloat(c.Settings[key].(float64), 'g', -1, 64))
		delete(engine, key)
	}
	for _, key := range []string{"scheduler_reserve_full_isl", "long_prefill_token_threshold", "async_scheduling"} {
		delete(engine, key)
	}
	text, err := json.Marshal(engine)
	if err != nil {
		t.Fatal(err)
	}
	return append(args, "--trace-block-size="+strconv.Itoa(c.Tokens), "--engine-args="+string(text),
		"--timing-profile="+filepath.Join(dir, "times.json"), "--requests="+filepath.Join(dir, "requests.jsonl"), "--output=json")
}

// Prefill and decode workers with --kv-transfer pull and push equal engines of vLLM 0.24.0 and 0.33.0 with
// NixlConnector and NixlPushConnector, to the last bit.
func TestPullsAsVLLM(t *testing.T) {
	file, err := os.Open("../../testdata/vllm/pd.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c pullCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(c.Profile, ", ", c.Name, ", ", c.Settings["kv_transfer"]), func(t *testing.T) {
			dir := t.TempDir()
			if code, _, errs := command("", c.command(t, dir)...); code != cli.ExitDone {
				t.Fatalf("exit %d: %s", code, errs)
			}
			c.compare(t, filepath.Join(dir, "requests.jsonl"))
		})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// If the blocks of both pools wait for each other with --kv-transfer push, the error names the blocks of each pool.
// The long prompt has all its blocks on the decode worker and too few on the prefill worker; the short prompt has the
// reverse.
func TestPushStallNamesThePools(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	rows := `{"timestamp":0,"input_length":32,"output_length":2,"hash_ids":[1,2,3,4,5,6,7,8]}
{"timestamp":0,"input_length":12,"output_length":1,"hash_ids":[9,10,11]}
`
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := command("", "trace", path, "--trace-format=mooncake", "--trace-block-size=4", "--prefill-workers=1", "--decode-workers=1",
		"--kv-transfer=push", "--kv-transfer-bandwidth=1", "--kv-bytes-per-token=1000",
		`--engine-args={"scheduler_profile":"vllm-0.33","block_size":4,"num_gpu_blocks":11,"scheduler_rules":{"long_prefill_tokens":4}}`)
	want := "replay: stalled at 67.430902 ms: prefill workers hold KV blocks of computed prompts that decode workers have no blocks for (1, the first at " + path +
		":2), and decode workers hold blocks for prompts that prefill workers have no blocks for (1, the first at " + path + ":1)\n"
	if code == cli.ExitDone || errs != want {
		t.Errorf("exit %d, error:\n%s must be:\n%s", code, errs, want)
	}
}

// compare compares the requests in a file with the requests of c.
func (c *pullCase) compare(t *testing.T, path string) {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := json.NewDecoder(file)
	for id, want := range c.Requests {
		var row map[string]any
		if err := rows.Decode(&row); err != nil {
			t.Fatal(err)
		}
		for i, name := range c.Columns {
			got, ok := row[name].(float64)
			if ok != (want[i] != nil) || ok && got != *want[i] {
				t.Errorf("request %d: %s is %v, must be %v", id, name, row[name], want[i])
			}
		}
	}
}

// Requests that preempt each other endlessly on a prefill worker are an error, also while the worker keeps the blocks
// of a computed prompt for a decode worker.
func TestPreemptionWithoutEndStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	var rows strings.Builder
	next := 0
	for i, input := range []int{69, 5, 46, 74, 34, 69, 74, 64, 18, 67, 26} {
		var ids []string
		for range (input + 3) / 4 {
			ids = append(ids, strconv.Itoa(next))
			next++
		}
		fmt.Fprintf(&rows, "{\"timestamp\":%g,\"input_length\":%d,\"output_length\":4,\"hash_ids\":[%s]}\n", float64(i)*0.09, input, strings.Join(ids, ","))
	}
	if err := os.WriteFile(path, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := command("", "trace", path, "--trace-format=mooncake", "--trace-block-size=4", "--prefill-workers=2", "--decode-workers=2", "--router=round_robin",
		"--decode-num-gpu-blocks=22", "--kv-transfer=push", "--kv-transfer-bandwidth=0.1", "--kv-transfer-latency-ms=5", "--kv-bytes-per-token=1000000", "--enable-prefix-caching=false",
		`--engine-args={"scheduler_profile":"vllm-0.24","block_size":4,"num_gpu_blocks":34,"scheduler_rules":{"reserve_whole":false,"long_prefill_tokens":4}}`)
	if want := "requests keep preempting each other for 34 KV blocks"; code != cli.ExitRefused || !strings.Contains(errs, want) {
		t.Errorf("exit %d, error:\n%s must have %s", code, errs, want)
	}
}

// By vLLM's own rules decode workers pull, unless a flag disables it. Pull is not supported with faults; a warning
// names the setting to compare with.
func TestPullsByDefault(t *testing.T) {
	base := []string{"trace", "../../testdata/traces/short.jsonl", "--gpu=h100", "--model=llama-3.1-8b", "--prefill-workers=1", "--decode-workers=2"}
	const pulls, warning = "as with vLLM's NixlConnector; prefill workers", "compare with a run that has --kv-transfer all"
	for _, c := range []struct {
		flags         []string
		pulled, warns bool
	}{
		{nil, true, false},
		{[]string{"--kv-transfer=all"}, false, false},
		{[]string{"--decode-chosen=after-transfer"}, false, false},
		{[]string{"--decode-admission"}, false, false},
		{[]string{"--hold-prefill-blocks=false"}, false, false},
		{[]string{"--decode-chosen=before-prefill"}, true, false},
		{[]string{"--kv-offload-gib=8"}, true, false},
		{[]string{"--kv-offload-gib=8", "--kv-offload-connector=simple"}, true, false},
		{[]string{"--faults=[{at: 1, pool: decode, worker: 0, what: dies}]"}, false, true},
		{[]string{"--faults=[{at: 1, pool: decode, worker: 0, what: dies}]", "--kv-transfer=all"}, false, false},
	} {
		code, out, errs := command("", append(base, c.flags...)...)
		told := strings.Join(strings.Fields(out), " ")
		if code != cli.ExitDone || strings.Contains(told, pulls) != c.pulled || strings.Contains(errs, warning) != c.warns {
			t.Errorf("%v: exit %d, want pulls %v, warning %v:\n%s%s", c.flags, code, c.pulled, c.warns, out, errs)
		}
	}
}

// By the rules of vLLM 0.24, a request that is preempted on a prefill worker while its token is in flight leaves with
// the token and without blocks. With --kv-transfer push its KV cache is also sent, and all requests end.
func TestPushSendsWhatLostItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	var rows strings.Builder
	for i, input := range []int{93, 96, 68, 32, 82, 41, 15} {
		ids := make([]string, (input+15)/16)
		for k := range ids {
			ids[k] = strconv.Itoa(10*i + k)
		}
		fmt.Fprintf(&rows, "{\"timestamp\":0,\"input_length\":%d,\"output_length\":2,\"hash_ids\":[%s]}\n", input, strings.Join(ids, ","))
	}
	if err := os.WriteFile(path, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"", `,"num_g2_blocks":100`} {
		code, out, errs := command("", "trace", path, "--trace-format=mooncake", "--trace-block-size=16", "--prefill-workers=2", "--decode-workers=1", "--router=round_robin",
			"--decode-num-gpu-blocks=23", "--kv-transfer=push", "--kv-transfer-bandwidth=14", "--kv-bytes-per-token=1000", "--output=json", `--engine-args={"scheduler_profile":"vllm-0.24",
			"block_size":16,"num_gpu_blocks":18,"max_num_batched_tokens":128,"scheduler_rules":{"reserve_whole":false,"long_prefill_tokens":49}`+more+"}")
		var report struct {
			Completed int `json:"completed_requests"`
			Transfers int `json:"kv_transfers"`
		}
		if err := json.Unmarshal([]byte(out), &report); code != cli.ExitDone || err != nil || report.Completed != 7 || report.Transfers != 7 {
			t.Errorf("%s: exit %d, %v, %+v, must have 7 of both:\n%s", more, code, err, report, errs)
		}
	}
}
