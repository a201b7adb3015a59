package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Names of engines in the rows.
const (
	vllmEngine   = "vllm"
	sglangEngine = "sglang"
	trtllmEngine = "trtllm"
)

// model is a model of the rows.
type model struct {
	name    string // name of replay models
	family  string
	experts bool
}

// listModels returns the supported models, by their names in the rows.
func listModels() map[string]model {
	return map[string]model{
		"meta-llama/Llama-3.1-8B-Instruct": {"llama-3.1-8b", "Llama", false},
		"meta-llama/Llama-3.1-70B":         {"llama-3.1-70b", "Llama", false},
		"Qwen/Qwen3-32B":                   {"qwen3-32b", "Qwen3", false},
		"nvidia/Qwen3-32B-NVFP4":           {"qwen3-32b", "Qwen3", false},
		"nvidia/Llama-3.1-8B-Instruct-FP8": {"llama-3.1-8b", "Llama", false},
		"Qwen/Qwen3-235B-A22B-FP8":         {"qwen3-235b-a22b", "Qwen3-MoE", true},
		"MiniMaxAI/MiniMax-M2.5":           {"minimax-m2.5", "MiniMax", true},
		"openai/gpt-oss-120b":              {"gpt-oss-120b", "gpt-oss", true},
		"deepseek-ai/DeepSeek-R1":          {"deepseek-r1", "DeepSeek", true},
		"nvidia/DeepSeek-R1-NVFP4":         {"deepseek-r1", "DeepSeek", true},
		"moonshotai/Kimi-K2.5":             {"kimi-k2.5", "Kimi", true},
		"zhipuai/GLM-5":                    {"glm-5", "GLM-5", true},
		"Qwen/Qwen3.5-397B-A17B":           {"qwen3.5-397b-a17b", "Qwen3.5", true},
	}
}

func (r *Row) hasExperts() bool { return listModels()[r.Model].experts }

// gpu returns the name of the GPU in replay gpus.
func (r *Row) gpu() string { return strings.TrimSuffix(r.GPU, "_sxm") }

// quantization returns the type of the weights for --quantization; "": the type in the checkpoint.
func (r *Row) quantization() string {
	switch m := listModels()[r.Model]; {
	case m.family == "gpt-oss":
	case m.name == "qwen3-235b-a22b":
		return string(hardware.FP8Block)
	case r.Precision == "fp8" && (m.family == "GLM-5" || m.family == "Qwen3.5"):
		return string(hardware.FP8Block)
	case m.experts && r.Precision == "fp4":
		return string(hardware.NVFP4)
	case m.experts:
	case r.Products == "int4_wo":
		return string(hardware.INT4)
	case r.Products != "":
		return r.Products
	case r.Precision == "fp8":
		return string(hardware.FP8)
	case r.Precision == "fp4":
		return string(hardware.NVFP4)
	}
	return ""
}

// narrowCache reports whether the KV cache is FP8. With TensorRT-LLM the KV cache is FP8 for quantized rows of
// InferenceX, and for FP8 weights per tensor. The KV cache is also FP8 for DeepSeek with SGLang, and with sparse
// attention on Blackwell.
func (r *Row) narrowCache() bool {
	m := listModels()[r.Model]
	if m.family == "gpt-oss" || r.Precision != "fp8" && r.Precision != "fp4" {
		return false
	}
	if m.family == "GLM-5" {
		return r.gpu() != "h200"
	}
	return r.Engine == trtllmEngine && (r.Drawn() || r.quantization() == string(hardware.FP8)) || r.Engine == sglangEngine && m.family == "DeepSeek"
}

// hardwareSettings returns the hardware flags of the server.
func (r *Row) hardwareSettings() []plan.Setting {
	all := []plan.Setting{{Name: "gpu", Value: r.gpu()}, {Name: "model", Value: listModels()[r.Model].name}, {Name: "tp", Value: strconv.Itoa(max(r.TP, 1))}}
	if r.DP > 1 {
		all = append(all, plan.Setting{Name: "dp", Value: strconv.Itoa(r.DP)})
	}
	if r.hasExperts() && r.EP > 1 && r.EP == r.GPUs() {
		all = append(all, plan.Setting{Name: "ep", Value: strconv.Itoa(r.EP)})
	}
	if q := r.quantization(); q != "" {
		all = append(all, plan.Setting{Name: "quantization", Value: q})
	}
	if r.narrowCache() {
		all = append(all, plan.Setting{Name: "kv-cache-dtype", Value: "fp8"})
	}
	return all
}

// fit returns the server's hardware in the format of hardware.ParseFit.
func (r *Row) fit() string {
	keys := map[string]string{"quantization": "weights", "kv-cache-dtype": "kv"}
	values := url.Values{}
	all := r.hardwareSettings()
	for _, s := range all[2:] {
		key := s.Name
		if other := keys[key]; other != "" {
			key = other
		}
		values.Set(key, s.Value)
	}
	return all[0].Value + "/" + all[1].Value + "?" + values.Encode()
}

// requests returns the number of requests. InferenceX sends 10 requests per request in flight.
func (r *Row) requests() int {
	if r.Drawn() {
		return 10 * r.Concurrency
	}
	return max(8, 4*r.Concurrency)
}

// release returns the engine and release for the pass times.
func (r *Row) release() string {
	pattern, usual := `^\d+\.\d+`, "0.17"
	switch r.Engine {
	case sglangEngine:
		pattern, usual = `^\d+\.\d+\.\d+`, "0.5.9"
	case trtllmEngine:
		usual = "1.2"
	}
	if found := regexp.MustCompile(pattern).FindString(r.Release); found != "" {
		usual = found
	}
	return r.Engine + "-" + usual
}

// spec returns the replay of the row. Values that the row does not have are the defaults of the command line.
func (r *Row) spec() (replay.Spec, error) {
	settings := append(r.hardwareSettings(),
		plan.Setting{Name: "max-in-flight", Value: strconv.Itoa(r.Concurrency)}, plan.Setting{Name: "input-tokens", Value: strconv.Itoa(r.Input)},
		plan.Setting{Name: "output-tokens", Value: strconv.Itoa(r.Output)}, plan.Setting{Name: "request-count", Value: strconv.Itoa(r.requests())})
	switch r.Engine {
	case sglangEngine:
		settings = append(settings, plan.Setting{Name: "engine", Value: sglangEngine})
	case trtllmEngine:
		settings = append(settings, r.trtllmSettings()...)
	}
	o, file, mode, err := options.OptionsOf(settings)
	if err != nil {
		return replay.Spec{}, err
	}
	spec, err := o.Spec(file, mode)
	if err != nil {
		return spec, err
	}
	spec.Topology = spec.WithEngines(func(a *engineargs.Args) { a.PassTimes = a.PassTimes.ByOperators(r.release()) })
	return spec, nil
}

// trtllmSettings returns the flags of a TensorRT-LLM server, as in InferenceX. A pass has room for the longest prompt
// and a token of each request. Blocks are not reused. Attention ranks wait for prompts of the remaining ranks.
func (r *Row) trtllmSettings() []plan.Setting {
	all := []plan.Setting{
		{Name: "engine", Value: trtllmEngine}, {Name: "max-num-tokens", Value: strconv.Itoa(max((r.Concurrency+r.Input+64+63)/64*64, leastTokens))},
		{Name: "enable-prefix-caching", Value: "false"},
	}
	if r.DP > 1 {
		all = append(all, plan.Setting{Name: "enable-balance", Value: "true"}, plan.Setting{Name: "timeout-iters", Value: "60"}, plan.Setting{Name: "batching-wait-iters", Value: "0"})
	}
	return all
}

// leastTokens is the minimum of max_num_tokens of a TensorRT-LLM server.
const leastTokens = 8192

// workload returns the requests of the row.
func (r *Row) workload(ctx context.Context, spec *replay.Spec) (*loadgen.Workload, error) {
	w, err := spec.Open(ctx, replay.Streams{})
	if err != nil || !r.Drawn() {
		return w, err
	}
	random := sim.NewRand(1, "tools/judge")
	draw := func(most int) int32 {
		low := most * 4 / 5
		return int32(max(low+random.IntN(most-low+1), 1))
	}
	for i := range w.Turns {
		w.Turns[i].Input, w.Turns[i].Output = draw(r.Input), draw(r.Output)
	}
	return w, nil
}

// Outcome is a row and the result of its replay.
type Outcome struct {
	Row
	Kind                         accuracy.Kind
	SimulatedTTFT, SimulatedTPOT float64 // means in ms
	parts                        parts   // parts of mean TPOT
	corrections                  silicon.Corrections
	frontEnd                     silicon.FrontEnd
}

// Off returns the relative error of mean TPOT.
func (o *Outcome) Off() float64 { return o.SimulatedTPOT/o.TPOT - 1 }

// FirstOff returns the relative error of mean TTFT.
func (o *Outcome) FirstOff() float64 { return o.SimulatedTTFT/o.TTFT - 1 }

// kindOf returns the kind of server that a replay simulates.
func kindOf(spec *replay.Spec) (k accuracy.Kind, err error) {
	e := spec.Entry().Kinds()[0].Engine
	return engines.KindOf(&e)
}

// replay replays the row.
func (r *Row) replay(ctx context.Context) (Outcome, error) {
	o := Outcome{Row: *r}
	spec, err := r.spec()
	if err != nil {
		return o, err
	}
	if o.Kind, err = kindOf(&spec); err != nil {
		return o, err
	}
	w, err := r.workload(ctx, &spec)
	if err != nil {
		return o, err
	}
	engine, release := timing.SplitEngine(r.release())
	log := &partsLog{corrections: silicon.CorrectionsOf(engine, release), ranks: max(r.DP, 1)}
	result, err := spec.RunOn(ctx, w, replay.Streams{Observer: log})
	if err != nil {
		return o, err
	}
	if n := len(w.Turns); result.Report.Completed != n {
		return o, fmt.Errorf("%d of %d requests were completed", result.Report.Completed, n)
	}
	o.parts, o.corrections = log.perToken(result.Report.OutputTokens-len(w.Turns)), log.corrections
	o.frontEnd = spec.FrontEndTime()
	o.SimulatedTTFT, o.SimulatedTPOT = result.Report.TTFT.Mean, result.Report.TPOT.Mean
	return o, nil
}

// isUnfit reports whether the program finds that the model does not fit in the memory of its GPUs.
func (r *Row) isUnfit() bool {
	_, err := r.spec()
	return errors.As(err, new(*options.UnfitError))
}

// Replay replays rows concurrently. Replay returns the results in the order of the rows.
func Replay(ctx context.Context, rows []Row, jobs int) ([]Outcome, error) {
	all, errs := make([]Outcome, len(rows)), make([]error, len(rows))
	next := make(chan int)
	var group sync.WaitGroup
	for range max(jobs, 1) {
		group.Go(func() {
			for i := range next {
				all[i], errs[i] = rows[i].replay(ctx)
			}
		})
	}
	for i := range rows {
		next <- i
	}
	close(next)
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("%s %s on %s, %d in flight: %w", rows[i].Engine, rows[i].Model, rows[i].GPU, rows[i].Concurrency, err)
		}
	}
	return all, nil
}
