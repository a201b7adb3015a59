package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
)

// outcome returns the output of a command without parts that differ between runs.
func outcome(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	in, err := os.Open(stdin)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out, errs bytes.Buffer
	if code := run(append(args, "--trace-block-size=64", "--output=json"), in, &out, &errs); code != 0 {
		t.Errorf("%q: exit %d: %s", args, code, &errs)
	}
	return clitest.CleanText(out.String() + errs.String())
}

// Command lines with different words and the same meaning have the same output.
func TestSameRuns(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	const (
		prefill = `--prefill-engine-args={"worker_type":"prefill","block_size":32`
		decode  = `--decode-engine-args={"worker_type":"decode","block_size":32`
	)
	for _, same := range [][]string{
		{
			"trace requests.jsonl " + prefill + "} " + decode + "} --prefill-workers=2",
			"trace requests.jsonl --block-size=32 --prefill-workers=2 --decode-workers=1",
			"trace requests.jsonl --block-size=32 --num-prefill-workers=2",
			`trace requests.jsonl --engine-args={"block_size":32} --prefill-workers=2`,
			`trace requests.jsonl --prefill-engine-args={"block_size":32} --block-size=32 --prefill-workers=2`,
			"requests.jsonl " + prefill + "} " + decode + "} --num-prefill-workers=2",
		},
		{
			"trace requests.jsonl " + prefill + `,"max_num_batched_tokens":64} ` + decode + `,"num_gpu_blocks":9,"preemption_mode":"fifo"}`,
			"trace requests.jsonl --block-size=32 --prefill-max-num-batched-tokens=64 --decode-num-gpu-blocks=9 --decode-preemption-mode=fifo",
			"trace requests.jsonl --block-size=32 --max-num-batched-tokens=64 --decode-max-num-batched-tokens=8192 --num-gpu-blocks=9 --prefill-num-gpu-blocks=16384 --preemption-mode=fifo",
			"trace requests.jsonl " + prefill + `,"max_num_batched_tokens":99} ` + decode + `,"num_gpu_blocks":9} --prefill-max-num-batched-tokens=64 --decode-preemption-mode=fifo`,
		},
		{ // the reference counts cached blocks of preempted requests as hits
			"trace requests.jsonl --block-size=32 --prefill-max-num-batched-tokens=64 --decode-num-gpu-blocks=9 --decode-preemption-mode=fifo --compat=dynamo-1.2",
			"requests.jsonl --block-size=32 --prefill-max-num-batched-tokens=64 --decode-num-gpu-blocks=9 --decode-preemption-mode=fifo",
		},
		{
			"trace requests.jsonl --block-size=32 --prefill-engine=sglang --decode-engine=sglang --decode-workers=2",
			"trace requests.jsonl --page-size=32 --engine=sglang --decode-workers=2",
		},
		{
			"trace requests.jsonl --engine=sglang --block-size=16 --max-prefill-tokens=80 --chunked-prefill-size=64 --schedule-policy=lpm",
			"trace requests.jsonl --engine=sglang --page-size=16 --block-size=16 --max-prefill-tokens=80 --chunked-prefill-size=64 --schedule-policy=lpm",
			"trace requests.jsonl --engine=sglang --page-size=16 --sglang-max-prefill-tokens=80 --sglang-chunked-prefill-size=64 --sglang-schedule-policy=lpm",
			`trace requests.jsonl --engine-args={"engine_type":"sglang","block_size":64,"sglang":{"max_prefill_tokens":80,"chunked_prefill_size":64,"schedule_policy":"lpm"}} --page-size=16`,
			`trace requests.jsonl --engine-args={"engine_type":"sglang","sglang":{"page_size":32,"max_prefill_tokens":80,"chunked_prefill_size":64,"schedule_policy":"lpm"}} --block-size=16`,
		},
		{
			"concurrency agents.jsonl --max-in-flight=1 --trace-format=applied_compute_agentic",
			"concurrency agents.jsonl --max-in-flight=1",
			"concurrency - --max-in-flight=1 < agents.jsonl",
			"agents.jsonl --replay-concurrency=1 --trace-format=applied_compute_agentic",
		},
		{"trace requests.jsonl", "trace requests.jsonl.gz", "trace - < requests.jsonl.zst", "trace requests.jsonl --until=1h"},
		{"trace requests.jsonl --until=50", "trace requests.jsonl --until=50ms", "trace requests.jsonl --until=0.05s"},
	} {
		first := ""
		for i, line := range same {
			line, stdin, ok := strings.Cut(line, " < ")
			if !ok {
				stdin = "empty.jsonl"
			}
			// The reports of the reference have no assumptions and no saturation.
			got := regexp.MustCompile(`(?m)^  "(assumptions|saturation.*)":.*\n`).ReplaceAllString(outcome(t, stdin, strings.Fields(line)...), "")
			if i == 0 {
				first = got
			} else if got != first {
				t.Errorf("%s\nprints\n%s\nand %s\n%s", line, got, same[0], first)
			}
		}
	}
}

// The report itself has the number of missing requests, for programs.
func TestMissingRequestsInJSON(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	got := outcome(t, "empty.jsonl", "trace", "requests.jsonl", "--until=50", "--oversize=reject")
	for _, want := range []string{`"partial": true`, `"rejected_requests": 0`, "replay: Ended at 50 ms: 3 of 4 requests unfinished\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s in it", got, want)
		}
	}
	got = outcome(t, "empty.jsonl", "trace", "mixed.jsonl", "--num-gpu-blocks=16", "--oversize=reject")
	for _, want := range []string{`"num_requests": 3`, `"completed_requests": 2`, `"rejected_requests": 1`, "replay: Rejected: 1 of 3 requests: 1 that no idle engine can run\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s in it", got, want)
		}
	}
}
