package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
)

// Flags of other tools work, or give an error that names the corresponding flags of replay.
func TestFlagsOfOtherTools(t *testing.T) {
	trace, _, err := root.New(cli.Streams{}, nil).Find([]string{"trace"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range cli.OtherFlags() {
		for word := range strings.FieldsSeq(f.Here) {
			word, _, _ = strings.Cut(word, "=")
			name, isFlag := strings.CutPrefix(word, "--")
			if own := trace.Flags().Lookup(name); isFlag && (own == nil || own.Name != name) {
				t.Errorf("--%s: trace has no --%s", f.Name, name)
			}
		}
		own := trace.Flags().Lookup(f.Name)
		if works := f.Here != "" && f.Note == ""; works {
			if own == nil || "--"+own.Name != f.Here {
				t.Errorf("--%s is not taken as %s", f.Name, f.Here)
			}
			continue
		}
		var out, errs bytes.Buffer
		if code := run([]string{"trace", "requests.jsonl", "--" + f.Name + "=5"}, nil, &out, &errs); code != cli.ExitUsage || !strings.Contains(errs.String(), "--"+f.Name+" is a flag of ") || !strings.Contains(errs.String(), f.Here) {
			t.Errorf("--%s: exit %d: %s", f.Name, code, &errs)
		}
	}
}

// The common flags of other tools are flags of a replay, or give an error that names a flag of replay.
func TestCommonFlagsOfOtherTools(t *testing.T) {
	trace, _, err := root.New(cli.Streams{}, nil).Find([]string{"trace"})
	if err != nil {
		t.Fatal(err)
	}
	answered := map[string]bool{}
	for _, f := range cli.OtherFlags() {
		answered[f.Name] = true
	}
	for tool, flags := range map[string]string{
		"AIPerf": `model url tokenizer endpoint-type streaming request-rate concurrency request-count num-requests isl osl isl-stddev osl-stddev synthetic-input-tokens-mean
			output-tokens-mean input-file custom-dataset-type fixed-schedule benchmark-duration goodput random-seed arrival-pattern replay-speedup`,
		"vllm bench serve": `model base-url host port backend dataset-name dataset-path num-prompts request-rate burstiness max-concurrency random-input-len random-output-len goodput
			seed tokenizer save-result ignore-eos trust-remote-code percentile-metrics metric-percentiles`,
		"vllm serve": `model tensor-parallel-size pipeline-parallel-size data-parallel-size enable-expert-parallel enforce-eager gpu-memory-utilization max-model-len max-num-seqs
			max-num-batched-tokens enable-prefix-caching no-enable-prefix-caching enable-chunked-prefill block-size kv-cache-dtype quantization dtype speculative-config
			scheduling-policy num-gpu-blocks-override kv-offloading-size kv-transfer-config host port api-key served-model-name trust-remote-code compilation-config`,
		"sglang.launch_server": `model-path tp-size dp-size ep-size pp-size tensor-parallel-size mem-fraction-static max-running-requests max-total-tokens chunked-prefill-size
			max-prefill-tokens schedule-policy schedule-conservativeness page-size kv-cache-dtype quantization disable-radix-cache disable-cuda-graph disable-overlap-schedule
			context-length speculative-algorithm enable-hierarchical-cache hicache-ratio load-balance-method host port`,
		"GuideLLM": "target profile rate rate-type max-requests max-seconds data backend random-seed constraint",
		"dynamo.replay": `num-workers num-prefill-workers num-decode-workers router-mode replay-concurrency replay-mode extra-engine-args prefill-engine-args decode-engine-args
			router-config arrival-speedup-ratio report-json trace-block-size input-tokens output-tokens request-count turns-per-session shared-prefix-ratio`,
	} {
		for name := range strings.FieldsSeq(flags) {
			if trace.Flags().Lookup(name) == nil && !answered[name] {
				t.Errorf("--%s of %s is no flag of a replay, and is not answered", name, tool)
			}
		}
	}
}

// A command line with flags of other tools has the result of the same line with flags of replay.
func TestOtherNames(t *testing.T) {
	here := printed(t, strings.Fields("trace --input-tokens 100 --output-tokens 20 --request-count 10 --gpu h100 --model llama-3.1-8b --tp 2 --seed 3 --output json"))
	for _, line := range []string{
		"trace --isl 100 --osl 20 --request-count 10 --gpu h100 --model llama-3.1-8b --tensor-parallel-size 2 --random-seed 3 --output json",
		"trace --random-input-len 100 --random-output-len 20 --num-prompts 10 --gpu h100 --model-path llama-3.1-8b --tp-size 2 --seed 3 --output json",
	} {
		if there := printed(t, strings.Fields(line)); clitest.CleanText(string(there)) != clitest.CleanText(string(here)) {
			t.Errorf("%s:\n%s\nwant\n%s", line, there, here)
		}
	}
}
