package main

import "fmt"

// question is a model on a GPU with fixed lengths and limits.
type question struct {
	model, checkpoint string   // names of replay and of aiconfigurator
	gpu               string   // name of replay
	gpus              int      // GPUs of the cluster; aiconfigurator divides them into replicas
	input, output     int      // lengths in tokens
	ttft, tpot        int      // limits in ms
	tps               []int    // tensor parallelisms to rank
	flags             []string // flags of replay for values that aiconfigurator reads from the checkpoint
}

// listQuestions returns the questions. If the weights do not fit, neither program reports a rate.
func listQuestions() []question {
	const small, large, middle, moe, big, deepseek = "meta-llama/Meta-Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-70B", "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B", "deepseek-ai/DeepSeek-V3"
	node := []int{1, 2, 4, 8}
	return []question{
		{"llama-3.1-8b", small, "h100", 8, 2048, 256, 1000, 30, node, nil},
		{"llama-3.1-8b", small, "h200", 8, 512, 512, 500, 15, node, nil},
		{"llama-3.1-70b", large, "h100", 16, 4000, 500, 2000, 40, node, nil},
		{"llama-3.1-70b", large, "h200", 16, 2048, 512, 1000, 30, node, nil},
		{"llama-3.1-70b", large, "b200", 16, 4000, 1000, 2000, 25, node, nil},
		{"qwen3-32b", middle, "h100", 8, 3000, 300, 1000, 30, node, nil},
		{"qwen3-30b-a3b", moe, "h100", 8, 2000, 200, 1000, 20, node, nil},
		{"qwen3-30b-a3b", moe, "h200", 8, 6000, 500, 2000, 15, node, nil},
		{"qwen3-235b-a22b", big, "h200", 16, 2000, 500, 1500, 40, node, nil},
		{"deepseek-v3", deepseek, "h200", 16, 4000, 500, 2000, 60, []int{8}, []string{"--kv-cache-dtype", "fp8"}},
	}
}

// name returns the description of the question in a table.
func (q *question) name() string {
	return fmt.Sprintf("%s, %d × %s, %d + %d tokens, TTFT %d ms, TPOT %d ms", q.model, q.gpus, q.gpu, q.input, q.output, q.ttft, q.tpot)
}

// answer is the answer of a program: rates by tensor parallelism. Configurations that miss the limits have no rate.
type answer struct {
	one, two map[int]rate // one: one pool; two: prefill and decode pools
}

// newAnswer returns an answer without rates.
func newAnswer() *answer { return &answer{one: map[int]rate{}, two: map[int]rate{}} }

// rate is the rate at the highest load.
type rate struct {
	tokens float64 // output tokens per second and GPU
	split  string  // prefill and decode workers, such as 3+5; "": one pool
}

// keepBest stores a rate if it is higher than the stored rate.
func keepBest(all map[int]rate, tp int, r rate) {
	if r.tokens > all[tp].tokens {
		all[tp] = r
	}
}

// findBest returns the highest rate; 0: no rate.
func findBest(all map[int]rate) (b rate) {
	for _, r := range all {
		if r.tokens > b.tokens {
			b = r
		}
	}
	return b
}

// splits returns all pairs of prefill and decode workers that use the GPUs.
func (q *question) splits(tp int) (all [][2]int) {
	n := q.gpus / tp
	for prefill := 1; prefill < n; prefill++ {
		all = append(all, [2]int{prefill, n - prefill})
	}
	return all
}
