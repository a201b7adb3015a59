package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/tools/dice"
)

// workload is one random run: a trace and the command line of the reference.
type workload struct {
	seed  uint64
	tags  dice.Tags
	trace string   // text of the trace file; "" for a synthetic workload
	args  []string // without the trace and the report
	// profile is a file of pass times for the engines that ask for it; nil: none.
	profile []byte
	plan    *schedule // of a planner that goes along; nil: none
	ties    bool      // the reference breaks ties by lot: any of its outcomes will do
}

// allTags lists the words a workload can be chosen by.
func allTags() []string {
	return []string{
		"vllm", "sglang", "alone", "pool", "kv", "disagg", "flat", "sessions", "synthetic", "agentic",
		"trace", "concurrency", "tight", "fifo", "unchunked", "uncached", "speed", "queue", "transfer", "straddle",
		"profile", "odd", "digits", "long", "hopeless", "scaling",
	}
}

func (w *workload) addArgs(args ...any) {
	for _, a := range args {
		w.args = append(w.args, fmt.Sprint(a))
	}
}

// drawWorkload makes the workload of a seed.
func drawWorkload(seed uint64) *workload {
	if seed%10 == 9 {
		return drawScaling(seed)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	w := &workload{seed: seed}
	w.tags.Add(dice.Pick(rng, "vllm", "vllm", "vllm", "sglang"))
	w.tags.Add(dice.Pick(rng, "alone", "alone", "pool", "pool", "kv", "disagg", "disagg"))
	if w.tags.Has("disagg") && dice.Chance(rng, 3) {
		w.tags.Add("kv")
	}
	w.tags.Add(dice.Pick(rng, "flat", "flat", "flat", "sessions", "sessions", "synthetic", "agentic"))
	if w.tags.Has("agentic") || dice.Chance(rng, 3) {
		w.tags.Add("concurrency")
		w.addArgs("--replay-concurrency", dice.Pick(rng, 1, 2, 3, 8, 40))
	} else {
		w.tags.Add("trace")
		if dice.Chance(rng, 3) {
			w.addArgs("--arrival-speedup-ratio", dice.Pick(rng, "0.5", "2", "3.3", "10"))
		}
	}
	block := w.drawBlock(rng)
	largest := w.drawRequests(rng, block)
	w.drawTopology(rng, block, largest)
	return w
}

// drawBlock draws the engine's block size.
func (w *workload) drawBlock(rng *rand.Rand) int {
	if w.tags.Has("sglang") && dice.Chance(rng, 3) {
		return dice.Pick(rng, 1, 3, 48)
	}
	return dice.Pick(rng, 2, 4, 8, 16, 16, 32, 64, 64, 128, 512)
}

// drawTopology draws workers, their engines and the router.
func (w *workload) drawTopology(rng *rand.Rand, block int, largest int) {
	switch {
	case w.tags.Has("alone"):
		w.addArgs("--num-workers", 1, "--extra-engine-args", w.drawEngine(rng, block, largest, ""))
	case w.tags.Has("pool"):
		w.addArgs("--num-workers", 2+rng.IntN(4), "--extra-engine-args", w.drawEngine(rng, block, largest, ""))
	case w.tags.Has("disagg"):
		w.drawDisaggregated(rng, block, largest)
	case w.tags.Has("kv"):
		w.addArgs("--num-workers", dice.Pick(rng, 2, 2, 3), "--router-mode", "kv_router", "--extra-engine-args", w.drawEngine(rng, block, largest, ""))
		w.drawRouter(rng)
		w.ties = true
	}
}

func (w *workload) drawDisaggregated(rng *rand.Rand, block, largest int) {
	prefill, decode := 1+rng.IntN(3), 1+rng.IntN(2)
	if w.tags.Has("kv") {
		w.addArgs("--router-mode", "kv_router")
		w.drawRouter(rng)
		prefill, decode = 1+rng.IntN(2), 1+rng.IntN(2)
		w.ties = prefill > 1 || decode > 1
	}
	w.addArgs("--num-prefill-workers", prefill, "--num-decode-workers", decode,
		"--prefill-engine-args", w.drawEngine(rng, block, largest, "prefill"),
		"--decode-engine-args", w.drawEngine(rng, block, largest, "decode"))
}

// drawRouter draws what the KV router weighs and when it holds requests back.
func (w *workload) drawRouter(rng *rand.Rand) {
	config := map[string]any{}
	if dice.Chance(rng, 2) {
		w.tags.Add("queue")
		config["router_queue_threshold"] = dice.Pick[any](rng, 0.1, 0.5, 1, 4, nil)
		config["router_queue_policy"] = dice.Pick(rng, "fcfs", "lcfs", "wspt")
	}
	if dice.Chance(rng, 3) {
		config["overlap_score_credit"] = dice.Pick(rng, 0, 0.5, 0.75, 1)
	}
	if dice.Chance(rng, 4) {
		config["prefill_load_scale"] = dice.Pick(rng, 0.5, 2, 3)
	}
	if dice.Chance(rng, 5) {
		config["overlap_score_weight"] = dice.Pick[any](rng, 0, 0.5, 2, nil)
	}
	for _, key := range []string{"router_assume_kv_reuse", "router_track_active_blocks", "router_track_prefill_tokens"} {
		if dice.Chance(rng, 8) {
			config[key] = false
		}
	}
	if len(config) > 0 {
		w.addArgs("--router-config", dice.Object(config))
	}
}

// drawEngine draws the arguments of an engine that can hold the largest request.
func (w *workload) drawEngine(rng *rand.Rand, block, largest int, role string) string {
	args := map[string]any{"block_size": block}
	if role != "" {
		args["worker_type"] = role
	}
	if dice.Chance(rng, 3) {
		w.tags.Add("speed")
		args["speedup_ratio"] = dice.Pick[any](rng, 0, 0.5, 3, 100, 1e12)
		args["decode_speedup_ratio"] = dice.Pick[any](rng, 0, 2, 1.7)
	}
	if w.profile == nil && dice.Chance(rng, 8) {
		w.tags.Add("profile")
		w.profile = drawProfile(rng)
	}
	if w.profile != nil && dice.Chance(rng, 2) {
		args["planner_profile_data"] = profilePlace
	}
	if role == "prefill" && dice.Chance(rng, 2) {
		w.tags.Add("transfer")
		args["kv_transfer_bandwidth"] = dice.Pick[any](rng, 0, 1, 2.5, 64)
		args["kv_bytes_per_token"] = dice.Pick(rng, 7, 1000, 100000)
	}
	if w.tags.Has("scaling") && dice.Chance(rng, 2) {
		args["startup_time"] = dice.Pick(rng, 0.001, 0.02, 0.1, 1)
	}
	blocks := (largest + block - 1) / block
	tight := dice.Chance(rng, 2)
	if tight {
		w.tags.Add("tight")
		args["num_gpu_blocks"] = blocks + dice.Pick(rng, 0, 1, 2, blocks, 3*blocks)
	} else if blocks > 8000 {
		args["num_gpu_blocks"] = 20 * blocks
	}
	if w.tags.Has("sglang") {
		w.drawSGLang(rng, args, tight, block, blocks)
	} else {
		w.drawVLLM(rng, args)
	}
	if dice.Chance(rng, 12) {
		w.makeOdd(rng, args)
	}
	if dice.Chance(rng, 40) {
		w.makeHopeless(rng, args, blocks)
	}
	return dice.Object(args)
}

func (w *workload) drawVLLM(rng *rand.Rand, args map[string]any) {
	if dice.Chance(rng, 3) {
		args["max_num_seqs"] = dice.Pick[any](rng, 1, 2, 5, 16, nil)
	}
	if dice.Chance(rng, 2) {
		args["max_num_batched_tokens"] = dice.Pick[any](rng, 64, 100, 256, 1024, 2048, nil)
	}
	if dice.Chance(rng, 3) {
		w.tags.Add("fifo")
		args["preemption_mode"] = "fifo"
	}
	if dice.Chance(rng, 5) {
		w.tags.Add("uncached")
		args["enable_prefix_caching"] = false
	}
	if dice.Chance(rng, 6) {
		w.tags.Add("unchunked")
		args["enable_chunked_prefill"] = false
		delete(args, "max_num_batched_tokens")
	}
}

// makeHopeless makes it likely that some request can never run, or that two keep
// pushing each other out.
func (w *workload) makeHopeless(rng *rand.Rand, args map[string]any, blocks int) {
	w.tags.Add("hopeless")
	switch rng.IntN(3) {
	case 0:
		args["num_gpu_blocks"] = max(1, blocks-1-rng.IntN(blocks))
	case 1:
		args["enable_chunked_prefill"], args["max_num_batched_tokens"] = false, 1+rng.IntN(40)
	case 2:
		args["num_gpu_blocks"], args["max_num_batched_tokens"] = blocks, 1+rng.IntN(4)
	}
	if w.tags.Has("sglang") {
		args["sglang"] = map[string]any{"chunked_prefill_size": args["block_size"], "schedule_conservativeness": dice.Pick(rng, -1, 0.1, 3)}
	}
	w.trace = strings.Replace(w.trace, `"output_length":1,`, `"output_length":0,`, rng.IntN(2))
}

// makeOdd gives an argument a value of the wrong type, which the reference passes
// over, or one without effect.
func (w *workload) makeOdd(rng *rand.Rand, args map[string]any) {
	w.tags.Add("odd")
	key := dice.Pick(rng, "max_num_seqs", "startup_time", "enable_local_indexer", "max_num_batched_tokens", "preemption_mode", "dp_size")
	args[key] = dice.Pick[any](rng, "4", 1.5, -1, []int{1}, false, json.Number("1e3"))
	if key == "startup_time" || key == "preemption_mode" {
		args[key] = dice.Pick[any](rng, 3, false)
	}
}

// drawSGLang draws the engine's own arguments. Its tight pools are wider: it never
// ends where two requests do not fit.
func (w *workload) drawSGLang(rng *rand.Rand, args map[string]any, tight bool, block, blocks int) {
	args["engine_type"] = "sglang"
	if tight {
		args["num_gpu_blocks"] = blocks * dice.Pick(rng, 3, 5, 10)
	} else {
		args["num_gpu_blocks"] = max(16384, 200*blocks)
	}
	own := map[string]any{}
	if dice.Chance(rng, 2) {
		own["schedule_policy"] = dice.Pick(rng, "fifo", "fcfs", "lpm")
	}
	if dice.Chance(rng, 3) {
		own["chunked_prefill_size"] = block * dice.Pick(rng, 1, 4, 64)
	}
	if dice.Chance(rng, 4) {
		own["max_prefill_tokens"] = block * dice.Pick(rng, 4, 64, 1000)
	}
	if dice.Chance(rng, 4) {
		own["clip_max_new_tokens"] = dice.Pick(rng, 1, 10, 100)
	}
	if dice.Chance(rng, 4) {
		own["schedule_conservativeness"] = dice.Pick[any](rng, 0.5, 1, 1.3)
	}
	if len(own) > 0 {
		args["sglang"] = own
	}
}

// formatDecimal writes v with at most 15 significant digits, which every reader reads
// alike.
func formatDecimal(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }
