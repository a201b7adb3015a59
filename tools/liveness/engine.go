package main

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/tools/dice"
)

// drawEngine draws the arguments of a tight engine.
func (x *trial) drawEngine(rng *rand.Rand, block, blocks int, role scheduler.Role) map[string]any {
	args := map[string]any{"block_size": block, "num_gpu_blocks": blocks}
	if role != scheduler.Aggregated {
		args["worker_type"] = role.String()
	}
	if role == scheduler.Prefill && dice.Chance(rng, 2) {
		x.tags.Add("transfer")
		args["kv_transfer_bandwidth"] = dice.Pick[any](rng, 0.5, 2)
		args["kv_bytes_per_token"] = dice.Pick(rng, 7, 1_000_000)
	}
	if dice.Chance(rng, 3) {
		args["speedup_ratio"] = dice.Pick[any](rng, 0, 10, 1e12) // the last: passes take no time
		args["decode_speedup_ratio"] = dice.Pick[any](rng, 1, 1e12)
	}
	if dice.Chance(rng, 3) {
		x.tags.Add("starts")
		args["startup_time"] = dice.Pick(rng, 0.001, 0.05, 1)
	}
	if dice.Chance(rng, 5) {
		args["enable_prefix_caching"] = false
	}
	if x.tags.Has("sglang") {
		x.drawSGLang(rng, args, block)
	} else {
		x.drawVLLM(rng, args)
	}
	return args
}

func (x *trial) drawVLLM(rng *rand.Rand, args map[string]any) {
	args["max_num_batched_tokens"] = 1 + rng.IntN(dice.Pick(rng, 4, 30, 200))
	if dice.Chance(rng, 2) {
		args["max_num_seqs"] = dice.Pick(rng, 1, 2, 3, 10)
	}
	if dice.Chance(rng, 3) {
		args["preemption_mode"] = "fifo"
	}
	if dice.Chance(rng, 8) {
		args["enable_chunked_prefill"] = false
		args["max_num_batched_tokens"] = 200
	}
	if dice.Chance(rng, 5) {
		x.tags.Add("offload")
		args["num_g2_blocks"] = 1 + rng.IntN(40)
		args["offload_batch_size"] = dice.Pick(rng, 1, 2, 32)
		args["kv_bytes_per_token"] = dice.Pick(rng, 100, 100_000, 10_000_000)
		args["bandwidth_g1_to_g2_gbps"] = dice.Pick(rng, 0, 0.1, 14)
		args["bandwidth_g2_to_g1_gbps"] = dice.Pick(rng, 0, 0.1, 14)
	}
}

func (x *trial) drawSGLang(rng *rand.Rand, args map[string]any, block int) {
	args["engine_type"] = "sglang"
	own := map[string]any{
		"chunked_prefill_size": block * (1 + rng.IntN(max(1, dice.Pick(rng, 3, 30, 200)/block))),
		"max_prefill_tokens":   block + rng.IntN(dice.Pick(rng, 4, 30, 200)),
		"schedule_policy":      dice.Pick(rng, "fifo", "fcfs", "lpm"),
	}
	if dice.Chance(rng, 3) {
		own["clip_max_new_tokens"] = dice.Pick(rng, 0, 1, 3, 20)
	}
	if dice.Chance(rng, 3) {
		own["schedule_conservativeness"] = dice.Pick[any](rng, 0, 0.1, 1, 2)
	}
	args["sglang"] = own
}
