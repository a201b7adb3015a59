package choices

import (
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// dimension is a list of alternatives. Each alternative is a list of settings, and the first one is the default.
type dimension [][]plan.Setting

// GPUs returns the GPUs in the flag --gpu.
func GPUs(o *options.Options) []string {
	for _, s := range o.Settings() {
		if s.Name == "gpu" {
			return strings.Split(s.Value, ",")
		}
	}
	return nil
}

// listDimensions returns a dimension for each setting that varies.
func (s *Space) listDimensions(o *options.Options) ([]dimension, error) {
	var all []dimension
	gpus := GPUs(o)
	var onto dimension // GPUs, and the division of the model among them
	for _, gpu := range gpus {
		var base []plan.Setting
		if len(gpus) > 1 {
			base = []plan.Setting{{Name: "gpu", Value: gpu}}
		}
		sets := dimension{nil}
		if s.varies(o, TP) {
			var err error
			if sets, err = listParallel(o, gpu); err != nil {
				return nil, err
			}
		}
		for _, set := range sets {
			onto = append(onto, append(slices.Clone(base), set...))
		}
	}
	all = append(all, onto)
	if len(s.Allow) > 0 {
		precisions := dimension{nil}
		for _, name := range s.Allow {
			precisions = append(precisions, []plan.Setting{{Name: "quantization", Value: name}})
		}
		all = append(all, precisions)
	}
	if s.varies(o, Budget) {
		all = append(all, listBudgets(o))
	}
	if s.varies(o, Router) {
		all = append(all, dimension{nil, {{Name: "router", Value: "kv"}}})
	}
	for _, axis := range s.axes {
		if axis.Name == Topology {
			continue
		}
		values := dimension{}
		for _, value := range axis.Values {
			values = append(values, []plan.Setting{{Name: axis.Name, Value: value}})
		}
		all = append(all, values)
	}
	return all, nil
}

// listParallel returns the possible divisions of a model among the GPUs of a node. The divisions are tensor
// parallelism, equal or different in two pools, and for models with experts attention data parallelism with expert
// parallelism.
func listParallel(o *options.Options, gpu string) (dimension, error) {
	model := ""
	for _, s := range o.Settings() {
		if s.Name == "model" {
			model = s.Value
		}
	}
	fit, err := hardware.ParseFit(gpu + "/" + model)
	if err != nil {
		return nil, cli.Usagef("--gpu and --model: %v", err)
	}
	var all dimension
	for tp := 1; tp <= fit.GPU.NodeSize() && tp <= 8; tp *= 2 {
		all = append(all, []plan.Setting{{Name: "tp", Value: strconv.Itoa(tp)}})
	}
	even := len(all)
	if fit.Model.MoE != nil && fit.GPU.NodeSize() >= 8 {
		all = append(all, []plan.Setting{{Name: "tp", Value: "1"}, {Name: "dp", Value: "8"}, {Name: "ep", Value: "8"}})
	}
	for i := 1; i < even; i++ { // two pools, one with twice the tensor parallelism
		less, more := all[i-1][0].Value, all[i][0].Value
		all = append(all, []plan.Setting{{Name: prefillTP, Value: more}, {Name: decodeTP, Value: less}}, []plan.Setting{{Name: prefillTP, Value: less}, {Name: decodeTP, Value: more}})
	}
	return all, nil
}

// EngineOf returns the engine of the command line, or "" for the default engine.
func EngineOf(o *options.Options) string {
	for _, s := range o.Settings() {
		if s.Name == "engine" {
			return s.Value
		}
	}
	return ""
}

// listBudgets returns the token budgets of a pass. For vLLM, budgets up to 1024 also limit the number of running
// requests to 256.
func listBudgets(o *options.Options) dimension {
	name, seats, budgets := "max-num-batched-tokens", "max-num-seqs", []int{256, 512, 1024, 2048, 16384}
	var with []plan.Setting // without this setting, prompts longer than the budget are rejected
	switch EngineOf(o) {
	case "sglang":
		name, seats = "chunked-prefill-size", ""
	case "trtllm":
		name, seats, budgets = "max-num-tokens", "", []int{1024, 2048, 4096, 16384}
		with = []plan.Setting{{Name: "enable-chunked-context", Value: "true"}}
	}
	all := dimension{nil} // the default budget of the server
	for _, budget := range budgets {
		set := append([]plan.Setting{{Name: name, Value: strconv.Itoa(budget)}}, with...)
		if seats != "" && budget <= 1024 && o.FirstChanged(seats) == "" {
			set = append(set, plan.Setting{Name: seats, Value: "256"})
		}
		all = append(all, set)
	}
	return all
}
