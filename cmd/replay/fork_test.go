package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
)

// TestForkEqualsRuns compares each future of replay fork with a complete run with the same change: the requests, and
// all digits of the values that both print.
func TestForkEqualsRuns(t *testing.T) {
	trace := filepath.Join("..", "..", "testdata", "traces", "chat-hour.jsonl")
	engines := map[string]string{
		"vllm": "", "kv": "--router=kv", "reference": "--scheduler-profile=reference --router=kv", "sglang": "--engine=sglang --router=kv",
		"host memory": "--engine=sglang --kv-bytes-per-token=1000 --enable-hierarchical-cache --hicache-ratio=2", "ranks": "--gpu=h100 --model=llama-3.1-8b --dp=2 --router=kv", "sglang's ranks": "--gpu=h100 --model=llama-3.1-8b --engine=sglang --dp=2",
		"pools": "--prefill-workers=2 --decode-workers=2", "closed loop": "--max-in-flight=6 --router=p2c",
	}
	changes := []string{"router=least-loaded", "router=kv,router-queue-threshold=0", "speedup=3", `"worker-speed=0.5,2"`, "workers=3"}
	at, end := "1m", "150s"
	if long.Enabled() {
		at, end = "2m", "5m"
	}
	for name, flags := range engines {
		t.Run(name, func(t *testing.T) {
			args := append([]string{trace, "--until=" + end, "--seed=3"}, strings.Fields(flags)...)
			own := changes
			switch name {
			case "pools":
				own = append(own[:3:3], `"decode-worker-speed=0.5,2"`)
			case "closed loop":
				args, own = append(args, "--workers=2"), []string{own[0], own[1], own[3], own[4]}
			default:
				args = append(args, "--workers=2")
			}
			fork := append([]string{"fork", "--at=" + at, "--output=json"}, args...)
			for _, c := range own {
				fork = append(fork, "--future="+c)
			}
			var got struct{ Futures []map[string]any }
			if err := json.Unmarshal(printed(t, fork), &got); err != nil {
				t.Fatal(err)
			}
			for i, c := range append([]string{""}, own...) {
				verb := "trace"
				if name == "closed loop" {
					verb = "concurrency"
				}
				whole := append([]string{verb, "--output=json"}, args...)
				if c != "" {
					whole = append(whole, "--change=at="+at+","+c)
				}
				var want map[string]any
				if err := json.Unmarshal(printed(t, whole), &want); err != nil {
					t.Fatal(err)
				}
				all := got.Futures[i]["all"].(map[string]any)
				for _, key := range []string{"mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_e2e_latency_ms"} {
					if fmt.Sprint(all[key]) != fmt.Sprint(want[key]) {
						t.Errorf("%s: %s is %v, and of the whole run %v", c, key, all[key], want[key])
					}
				}
			}
		})
	}
}
