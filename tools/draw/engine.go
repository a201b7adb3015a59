package draw

import (
	"encoding/json"
	"strings"
)

// ProfilePlace is a placeholder in arguments for the path of the workload's profile.
const ProfilePlace = "@profile.npz"

// drawBlock draws the block size of the engine.
func (d *Drawer) drawBlock() int {
	switch {
	case d.tiny && d.Tags.Has("sglang"):
		return Pick(d.Rand, 1, 1, 2, 3, 16, 64)
	case d.tiny:
		return Pick(d.Rand, 2, 4, 8, 16, 64)
	case d.Tags.Has("sglang") && d.Chance(3):
		return Pick(d.Rand, 1, 3, 48)
	}
	return Pick(d.Rand, 2, 4, 8, 16, 16, 32, 64, 64, 128, 512)
}

// drawTopology draws workers, engines and the router.
func (d *Drawer) drawTopology(block int, largest int) {
	switch {
	case d.Tags.Has("alone"):
		d.addArgs("--num-workers", 1, "--extra-engine-args", d.drawEngine(block, largest, ""))
	case d.Tags.Has("pool"):
		d.addArgs("--num-workers", 2+d.IntN(4), "--extra-engine-args", d.drawEngine(block, largest, ""))
	case d.Tags.Has("disagg"):
		d.drawDisaggregated(block, largest)
	case d.Tags.Has("kv"):
		d.addArgs("--num-workers", Pick(d.Rand, 2, 2, 3), "--router-mode", "kv_router", "--extra-engine-args", d.drawEngine(block, largest, ""))
		d.drawRouter()
		d.Ties = true
	}
}

func (d *Drawer) drawDisaggregated(block, largest int) {
	prefill, decode := 1+d.IntN(3), 1+d.IntN(2)
	if d.Tags.Has("kv") {
		d.addArgs("--router-mode", "kv_router")
		d.drawRouter()
		prefill, decode = 1+d.IntN(2), 1+d.IntN(2)
		d.Ties = prefill > 1 || decode > 1
	}
	d.addArgs("--num-prefill-workers", prefill, "--num-decode-workers", decode,
		"--prefill-engine-args", d.drawEngine(block, largest, "prefill"),
		"--decode-engine-args", d.drawEngine(block, largest, "decode"))
}

// drawRouter draws the configuration of the KV router, including its queue.
func (d *Drawer) drawRouter() {
	config := map[string]any{}
	if d.Chance(2) {
		d.Tags.Add("queue")
		config["router_queue_threshold"] = Pick[any](d.Rand, 0.1, 0.5, 1, 4, nil)
		config["router_queue_policy"] = Pick(d.Rand, "fcfs", "lcfs", "wspt")
	}
	if d.tiny {
		d.maybe(4, config, "router_queue_threshold", 0, 0.01)
		d.maybe(3, config, "router_temperature", 0, 0.7)
	}
	d.maybe(3, config, "overlap_score_credit", 0, 0.5, 0.75, 1)
	d.maybe(4, config, "prefill_load_scale", 0.5, 2, 3)
	d.maybe(5, config, "overlap_score_weight", 0, 0.5, 2, nil)
	for _, key := range []string{"router_assume_kv_reuse", "router_track_active_blocks", "router_track_prefill_tokens"} {
		if d.Chance(8) {
			config[key] = false
		}
	}
	if len(config) > 0 {
		d.addArgs("--router-config", formatObject(config))
	}
}

// drawEngine draws the arguments of an engine with room for the largest request.
func (d *Drawer) drawEngine(block, largest int, role string) string {
	args := map[string]any{"block_size": block}
	if role != "" {
		args["worker_type"] = role
	}
	if d.Chance(3) {
		d.Tags.Add("speed")
		args["speedup_ratio"] = Pick[any](d.Rand, 0, 0.5, 3, 100, 1e12)
		args["decode_speedup_ratio"] = Pick[any](d.Rand, 0, 2, 1.7)
	}
	if !d.tiny && d.Profile == nil && d.Chance(8) {
		d.Tags.Add("profile")
		d.Profile = d.drawProfile()
	}
	if d.Profile != nil && d.Chance(2) {
		args["planner_profile_data"] = ProfilePlace
	}
	if role == "prefill" && d.Chance(2) {
		d.Tags.Add("transfer")
		args["kv_transfer_bandwidth"] = Pick[any](d.Rand, 0, 1, 2.5, 64)
		args["kv_bytes_per_token"] = Pick(d.Rand, 7, 1000, 100000)
	}
	if d.Tags.Has("scaling") || d.tiny {
		d.maybe(2, args, "startup_time", 0.001, 0.02, 0.1, 1)
	}
	blocks := (largest + block - 1) / block
	tight := d.Chance(2)
	if tight {
		d.Tags.Add("tight")
		args["num_gpu_blocks"] = blocks + Pick(d.Rand, 0, 1, 2, blocks, 3*blocks)
	} else if blocks > 8000 {
		args["num_gpu_blocks"] = 20 * blocks
	}
	if d.Tags.Has("sglang") {
		d.drawSGLang(args, tight, block, blocks)
	} else {
		d.drawVLLM(args)
	}
	switch {
	case d.tiny:
		d.squeeze(args, block, blocks)
		return formatObject(args)
	case d.Chance(12):
		d.makeOdd(args)
	}
	if d.Chance(40) {
		d.makeHopeless(args, blocks)
	}
	return formatObject(args)
}

func (d *Drawer) drawVLLM(args map[string]any) {
	d.maybe(3, args, "max_num_seqs", 1, 2, 5, 16, nil)
	d.maybe(2, args, "max_num_batched_tokens", 64, 100, 256, 1024, 2048, nil)
	if d.Chance(3) {
		d.Tags.Add("fifo")
		args["preemption_mode"] = "fifo"
	}
	if d.Chance(5) {
		d.Tags.Add("uncached")
		args["enable_prefix_caching"] = false
	}
	if d.Chance(6) {
		d.Tags.Add("unchunked")
		args["enable_chunked_prefill"] = false
		delete(args, "max_num_batched_tokens")
	}
}

// drawSGLang draws the arguments of an SGLang engine. The tight pools of SGLang are larger, since a replay never ends
// if two requests do not fit.
func (d *Drawer) drawSGLang(args map[string]any, tight bool, block, blocks int) {
	args["engine_type"] = "sglang"
	if tight {
		args["num_gpu_blocks"] = blocks * Pick(d.Rand, 3, 5, 10)
	} else {
		args["num_gpu_blocks"] = max(16384, 200*blocks)
	}
	own := map[string]any{}
	d.maybe(2, own, "schedule_policy", "fifo", "fcfs", "lpm")
	d.maybe(3, own, "chunked_prefill_size", block, 4*block, 64*block)
	d.maybe(4, own, "max_prefill_tokens", 4*block, 64*block, 1000*block)
	d.maybe(4, own, "clip_max_new_tokens", 1, 10, 100)
	d.maybe(4, own, "schedule_conservativeness", 0.5, 1, 1.3)
	if len(own) > 0 {
		args["sglang"] = own
	}
}

// squeeze reduces the memory and the token budget of an engine.
func (d *Drawer) squeeze(args map[string]any, block, blocks int) {
	args["num_gpu_blocks"] = blocks + Pick(d.Rand, 0, 0, 1, 2, blocks)
	if d.Tags.Has("oversize") {
		args["num_gpu_blocks"] = max(1, blocks-d.IntN(blocks))
	}
	if d.Tags.Has("sglang") {
		own := map[string]any{
			"chunked_prefill_size": block * (1 + d.IntN(max(1, Pick(d.Rand, 3, 30, 200)/block))),
			"max_prefill_tokens":   block + d.IntN(Pick(d.Rand, 4, 30, 200)),
			"schedule_policy":      Pick(d.Rand, "fifo", "fcfs", "lpm"),
		}
		d.maybe(3, own, "clip_max_new_tokens", 0, 1, 3, 20)
		d.maybe(3, own, "schedule_conservativeness", 0, 0.1, 1, 2)
		args["sglang"] = own
		return
	}
	if args["enable_chunked_prefill"] == nil {
		args["max_num_batched_tokens"] = 1 + d.IntN(Pick(d.Rand, 4, 30, 200))
	}
	if d.Chance(5) {
		d.Tags.Add("offload")
		args["num_g2_blocks"] = 1 + d.IntN(40)
		args["offload_batch_size"] = Pick(d.Rand, 1, 2, 32)
		args["kv_bytes_per_token"] = Pick(d.Rand, 100, 100_000, 10_000_000)
		args["bandwidth_g1_to_g2_gbps"] = Pick(d.Rand, 0, 0.1, 14)
		args["bandwidth_g2_to_g1_gbps"] = Pick(d.Rand, 0, 0.1, 14)
	}
}

// makeHopeless makes it likely that a request can never run, or that two requests keep preempting each other.
func (d *Drawer) makeHopeless(args map[string]any, blocks int) {
	d.Tags.Add("hopeless")
	switch d.IntN(3) {
	case 0:
		args["num_gpu_blocks"] = max(1, blocks-1-d.IntN(blocks))
	case 1:
		args["enable_chunked_prefill"], args["max_num_batched_tokens"] = false, 1+d.IntN(40)
	case 2:
		args["num_gpu_blocks"], args["max_num_batched_tokens"] = blocks, 1+d.IntN(4)
	}
	if d.Tags.Has("sglang") {
		args["sglang"] = map[string]any{"chunked_prefill_size": args["block_size"], "schedule_conservativeness": Pick(d.Rand, -1, 0.1, 3)}
	}
	d.Trace = strings.Replace(d.Trace, `"output_length":1,`, `"output_length":0,`, d.IntN(2))
}

// makeOdd sets an argument to a value of the wrong type, which the reference ignores, or to a value without effect.
func (d *Drawer) makeOdd(args map[string]any) {
	d.Tags.Add("odd")
	key := Pick(d.Rand, "max_num_seqs", "startup_time", "enable_local_indexer", "max_num_batched_tokens", "preemption_mode", "dp_size")
	args[key] = Pick[any](d.Rand, "4", 1.5, -1, []int{1}, false, json.Number("1e3"))
	if key == "startup_time" || key == "preemption_mode" {
		args[key] = Pick[any](d.Rand, 3, false)
	}
}
