package ceilings

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

var boundsCases = flag.Int("bounds-cases", 60, "settings that bounds are drawn for; 500 take some 10 s")

// No row of bounds is better than the ceiling in any column. The drawn cases include drafts, prefill and decode pools
// with a bandwidth between them, sessions and closed loops.
func TestNoRowBeatsTheCeiling(t *testing.T) {
	for seed := range *boundsCases {
		args := drawBounds(rand.New(rand.NewPCG(uint64(seed), 14)))
		var out, errs bytes.Buffer
		cmd := NewBoundsCommand(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		cmd.SetArgs(args)
		cmd.SetErr(io.Discard)
		cmd.SetOut(io.Discard)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Errorf("seed %d: replay bounds %s: %v", seed, strings.Join(args, " "), err)
			continue
		}
		var got struct {
			Bounds []struct {
				Variant, Free string
				Old           []string            `json:"old_signals"`
				Times         map[string]*float64 `json:"times_ceiling"`
			}
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, row := range got.Bounds {
			for key, times := range row.Times {
				if times != nil && *times < 1-1e-6 {
					t.Errorf("seed %d: %s %s %v: %s is %.9f times the ceiling's\nreplay bounds %s", seed, row.Variant, row.Free, row.Old, key, *times, strings.Join(args, " "))
				}
			}
		}
	}
}

// drawBounds returns arguments of replay bounds.
func drawBounds(rand *rand.Rand) []string {
	pick := func(all ...string) string { return all[rand.IntN(len(all))] }
	between := func(low, high int) string { return strconv.Itoa(low + rand.IntN(high-low+1)) }
	args := []string{
		"--output", "json", "--signal-ages", pick("none", "1s"),
		"--input-tokens", between(20, 1500), "--output-tokens", between(1, 80), "--request-count", between(4, 60),
		"--shared-prefix-ratio", pick("0", "0.5", "0.9"), "--num-prefix-groups", between(1, 4), "--turns-per-session", between(1, 3),
		"--num-gpu-blocks", between(200, 2000), "--block-size", pick("16", "32"),
	}
	if rand.IntN(3) == 0 {
		args = append(args, "--max-in-flight", between(1, 12))
	} else {
		args = append(args, "--arrival-interval-ms", between(1, 200))
	}
	engine := pick("vllm", "vllm", "reference", "sglang")
	if engine == "sglang" {
		args = append(args, "--engine", "sglang")
		if rand.IntN(2) == 0 {
			args = append(args, "--speculative-algorithm", "EAGLE", "--speculative-num-steps", between(1, 4), "--speculative-eagle-topk", "1", "--acceptance-rate", "0.3..0.9")
		}
	} else if args = append(args, "--max-num-seqs", between(1, 32), "--max-num-batched-tokens", between(64, 4096)); engine == "vllm" {
		args = append(args, "--scheduler-profile", pick("vllm-0.19", "vllm-0.20", "vllm-0.33"))
		if rand.IntN(3) > 0 {
			args = append(args, "--speculative-config", fmt.Sprintf(`{"method":"%s","num_speculative_tokens":%d}`, pick("eagle", "ngram", "mtp"), 1+rand.IntN(5)),
				"--acceptance-rate", pick("0.1", "0.5", "0.9", "0.3..0.95"))
		}
	}
	if rand.IntN(4) == 0 {
		args = append(args, "--gpu", "h100", "--model", "llama-3.1-8b")
	}
	if rand.IntN(2) == 0 {
		args = append(args, "--prefill-workers", between(1, 4), "--decode-workers", between(1, 4))
		if rand.IntN(3) > 0 {
			args = append(args, "--kv-bytes-per-token", between(1000, 400000), "--kv-transfer-bandwidth", between(1, 50), "--kv-transfer-latency-ms", between(0, 20))
			if engine == "vllm" && rand.IntN(2) == 0 {
				args = append(args, "--nic-bandwidth", between(1, 50), "--kv-transfer-sharing", pick("fair", "fifo"), "--kv-transfer", pick("all", "missing"))
			}
		}
		if engine != "vllm" {
			return args // decode workers compute no prompts
		}
		switch rand.IntN(5) {
		case 0:
			args = append(args, "--pd-threshold", between(0, 1500))
		case 1:
			args = append(args, "--pd-threshold", "best")
		case 2:
			args = append(args, "--pd-when", "request.input_tokens - cached_tokens > "+between(0, 1000))
		}
	} else {
		args = append(args, "--workers", between(1, 5))
	}
	return args
}
