package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/programtest"
)

// For any mistyped name, the error suggests the nearest name, in the same words.
func TestSuggestions(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	for name, text := range map[string]string{
		"deployment.yaml": "gpu: h100\nmodle: llama-3.1-8b\n",
		"entries.yaml":    "run: trace requests.jsonl --trace-block-size 64\nbudgest:\n  p99_ttft_ms: +2%\n",
		"keys.yaml":       "run: trace requests.jsonl --trace-block-size 64\nbudgets:\n  p99_tfft_ms: +2%\n",
		"behaviour.yaml":  "run: trace requests.jsonl\nbehaviour: exatc\n",
		"axes.yaml":       "grid:\n  ruoter: [kv]\n",
		"sections.yaml":   "trace: requests.jsonl\ngird:\n  router: [kv]\n",
		"config.yaml":     "wrokers: 2\n",
		"events.yaml":     "- {at: 1s, wrkers: 2}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"replay trcae requests.jsonl", "trace", cli.ExitUsage},
		{"replay plna", "plan", cli.ExitUsage},
		{"replay help trcae", "trace", cli.ExitUsage},
		{"replay help traces convrt", "convert", cli.ExitUsage},
		{"replay traces convrt a b", "convert", cli.ExitUsage},
		{"replay trace requests.jsonl --wrkers 2", "--workers", cli.ExitUsage},
		{"replay trace requests.jsonl --help-al", "--help-all", cli.ExitUsage},
		{"replay trace requests.jsonl --router kvv", "kv", cli.ExitUsage},
		{"replay trace requests.jsonl --engine vlm", "vllm", cli.ExitUsage},
		{"replay trace requests.jsonl --scheduler-profile vllm-0.91", "vllm-0.19", cli.ExitUsage},
		{"replay trace requests.jsonl --output jsn", "json", cli.ExitUsage},
		{"replay trace requests.jsonl --trace-format mooncke", "mooncake", cli.ExitUsage},
		{"replay trace requests.jsonl --slo p99:tfft=1s", "ttft", cli.ExitUsage},
		{"replay trace requests.jsonl --slo meann:ttft=1s", "mean", cli.ExitUsage},
		{"replay trace requests.jsonl --columns arival=time,input=a,output=b", "arrival", cli.ExitUsage},
		{"replay trace requests.jsonl --gpu h10 --model llama-3.1-8b", "h100", cli.ExitUsage},
		{"replay trace requests.jsonl --gpu h100 --model lama-3.1-8b", "llama-3.1-8b", cli.ExitUsage},
		{"replay trace requests.jsonl --deployment deployment.yaml", "model", cli.ExitUsage},
		{"replay trace requests.jsonl --config config.yaml", "workers", cli.ExitUsage},
		{"replay trace requests.jsonl --scale events.yaml", "workers", cli.ExitRefused},
		{`replay trace requests.jsonl --engine-args {"blok_size":4}`, "block_size", cli.ExitRefused},
		{"replay trace --generate-arrivals poison --generate-rate 1 --generate-requests 9 --generate-input 9 --generate-output 9", "poisson", cli.ExitUsage},
		{"replay sweep --trace requests.jsonl --grid ruoter=kv", "router", cli.ExitUsage},
		{"replay sweep --trace requests.jsonl --set blok-size=64", "block-size", cli.ExitUsage},
		{"replay sweep axes.yaml", "router", cli.ExitUsage},
		{"replay sweep sections.yaml", "grid", cli.ExitUsage},
		{"replay plan requests.jsonl --slo p99:ttft=1s --try ruoter=kv", "router", cli.ExitUsage},
		{"replay check entries.yaml", "budgets", cli.ExitRefused},
		{"replay check keys.yaml", "p99_ttft_ms", cli.ExitRefused},
		{"replay check behaviour.yaml", "exact", cli.ExitRefused},
	} {
		programtest.CheckSuggestion(t, root.New, c.line, c.want, c.code)
	}
}

// A name without a similar name is rejected without a suggestion.
func TestNoSuggestion(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	for line, want := range map[string]string{
		"nothing.jsonl":                      "replay: open nothing.jsonl: no such file or directory\n",
		"sweep nothing.yaml":                 "replay: open nothing.yaml: no such file or directory\n",
		"traces xyzzy":                       "replay: traces xyzzy: no such command, must be inspect, validate, convert, sample, merge, scale or anonymize\n",
		"traces":                             "replay: traces: requires a command: inspect, validate, convert, sample, merge, scale or anonymize\n",
		"bounds requests.jsonl --slo-exit":   "replay: --slo-exit requires replay trace and replay concurrency\n",
		"gpus h100":                          "replay: gpus h100: must be no arguments\n",
		"trace requests.jsonl --router best": "replay: --router=best: must be round_robin, kv, random, least-loaded, p2c, session, cache_aware, consistent_hash or sticky_least_loaded\n",
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(line), nil, &out, &errs); code == 0 || errs.String() != want {
			t.Errorf("$ replay %s: exit %d, %q, want %q", line, code, &errs, want)
		}
	}
}
