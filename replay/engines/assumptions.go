package engines

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// Assumption is an unmeasured value or rule that a result depends on.
type Assumption struct {
	Key  string // as in a report
	Text string
}

// Assumptions returns the assumptions of a replay on t. For each pool, and each kind of workers in a mix, these are
// the source of pass times, the tokens of KV cache of a worker, its scheduler rules, and the duration of a handoff.
// The assumptions also name the simulated parts of an endpoint picker, the programs in the replay, and the definition
// of inter-token latency.
func (t *Topology) Assumptions() []Assumption {
	var all []Assumption
	for i := range t.Pools {
		p := &t.Pools[i]
		prefix := ""
		if t.Disaggregated() {
			prefix = p.Role.String() + "_"
		}
		if len(p.Mix) > 0 {
			all = append(all, Assumption{"workers", t.describeMix(p)})
		}
		for _, k := range p.Kinds() {
			if k.Name != "" {
				prefix = k.Name + "_"
			}
			all = append(all, assumptionsOf(prefix, &k.Engine)...)
		}
		if len(p.Mix) > 0 {
			prefix = ""
		}
		if text := t.describeSpeeds(i); text != "" {
			all = append(all, Assumption{prefix + "worker_speed", text})
		}
	}
	all = append(all, t.assumeFrontEnd()...)
	if t.Disaggregated() {
		all = append(all, Assumption{"kv_transfer", transferOf(&t.Pools[0].Engine) + t.describeUneven()})
	}
	if text := t.PD.describePrompts(); text != "" {
		all = append(all, Assumption{"pd", text})
	}
	if text := t.describeTransfers(); text != "" {
		all = append(all, Assumption{"pd_transfers", text})
	}
	if text := t.Choice().Describe(t.ageSignals()); text != "" {
		all = append(all, Assumption{"router", text})
	}
	if t.Admission != nil {
		all = append(all, Assumption{"admission", t.Admission.Describe(t.ageSignals())})
	}
	for i := range t.Pools {
		if a := t.AutoscalerOf(i); a != nil && a.Kind == autoscale.ByProgram {
			name := "autoscaler"
			if t.Disaggregated() {
				name = t.Pools[i].Role.String() + "_" + name
			}
			all = append(all, Assumption{name, "the program " + a.Program.Command})
		}
	}
	if s := t.ageSignals(); s != (router.Signals{}) {
		all = append(all, Assumption{"signals", policy.DescribeSignals(t.ListSignals(), s, policy.IsGated(t.Router))})
	}
	return append(all, Assumption{"itl", "ITL pools the gaps of all requests; TPOT is a mean for each request"})
}

// assumptionsOf returns the assumptions of an engine.
func assumptionsOf(prefix string, a *engineargs.Args) []Assumption {
	all := []Assumption{{prefix + "pass_times", passTimes(a)}, {prefix + "kv_cache", describeBlocks(a)}, {prefix + "scheduler", schedulerRules(a)}}
	if a.MaxLength > 0 {
		all = append(all, Assumption{prefix + "max_model_len", fmt.Sprintf("%d tokens, of a prompt and its answer", a.MaxLength)})
	}
	if a.Warmup.Given() {
		all = append(all, Assumption{prefix + "warm_up", describeWarmup(a)})
	}
	if a.Speculative != nil {
		all = append(all, Assumption{prefix + "speculative_decoding", describeSpeculation(a)})
	}
	return all
}

// describeWarmup describes the pause of a fresh engine.
func describeWarmup(a *engineargs.Args) string {
	until := ""
	if a.Warmup.Until > 0 {
		until = fmt.Sprintf(", up to %.3g s", float64(a.Warmup.Until/1000))
	}
	return fmt.Sprintf("workers are fresh: the first pass with %d requests that gain a token takes %.3g s longer%s", a.Warmup.Requests, float64(a.Warmup.Time/1000), until)
}

// passTimes describes the source of pass times.
func passTimes(a *engineargs.Args) string {
	switch a.PassTimes.Form() {
	case timing.BuiltIn:
		return "a built-in model, of no GPU in particular"
	case timing.Operators:
		return describeMeasured(a)
	}
	if f, ok := a.PassTimes.Fit(); ok {
		gpus := "1 GPU"
		if n := f.GPUs(); n > 1 {
			gpus = fmt.Sprintf("%d GPUs", n)
		}
		text := fmt.Sprintf("data sheets of %s and %s on %s a worker; ", f.GPU.Name, f.Model.Name, gpus)
		text += describeSheetErrors(a)
		if f.PP > 1 {
			text += "; the stages of --pp are kept full"
		}
		return text
	}
	if p, err := a.PassTimes.Profile(); err == nil && p.Engine != nil {
		return fmt.Sprintf("profile %v, fitted to %s on %s", a.PassTimes, cmp.Or(p.Engine.Model, "an unknown model"), cmp.Or(p.Engine.GPU, "an unknown GPU"))
	}
	return "profile " + a.PassTimes.String()
}

// describeSheetErrors describes the errors of data sheets on measured servers similar to an engine, over all rows of
// docs/accuracy.md.
func describeSheetErrors(a *engineargs.Args) string {
	s := SheetErrors(a)
	switch {
	case DataSheetsMeasured(a):
		return fmt.Sprintf("on %d measured runs of %s mean TPOT was %v off", s.Rows, accuracy.DenseOnOneGPU, s)
	case a.Engine == engineargs.VLLM && a.Rules.Reference():
		return fmt.Sprintf("with the reference's rules mean TPOT was %v off on %d measured runs", s, s.Rows)
	default:
		return fmt.Sprintf("validated against one server only, with experts on 4 GPUs: mean TPOT was %v off on %d runs", s, s.Rows)
	}
}

// SheetErrors returns the errors of mean TPOT by data sheets on measured servers similar to an engine.
func SheetErrors(a *engineargs.Args) (s accuracy.Spread) {
	e, err := accuracy.Load()
	if err != nil {
		return s
	}
	own := func(r *accuracy.Sheet) *float64 { return &r.TPOT.Mean }
	switch {
	case DataSheetsMeasured(a):
		return accuracy.SpreadOf(e.Sheets, accuracy.DenseOnOneGPU, own)
	case a.Engine == engineargs.VLLM && a.Rules.Reference():
		return accuracy.SpreadOf(e.Sheets, accuracy.DenseOnOneGPU, func(r *accuracy.Sheet) *float64 { return r.ReferenceTPOT })
	default:
		return accuracy.SpreadOf(e.Sheets, accuracy.Other, own)
	}
}

// TailErrors describes the errors of 99th percentiles on measured servers, for replays with such pass times.
// TailErrors returns "" for the built-in model.
func TailErrors(a *engineargs.Args) string {
	e, err := accuracy.Load()
	if err != nil || a.PassTimes.Form() == timing.BuiltIn {
		return ""
	}
	var tpot, ttft, itl accuracy.Spread
	if _, ok := a.PassTimes.Fit(); ok {
		class, rows := accuracy.Other, e.Sheets
		if DataSheetsMeasured(a) {
			class = accuracy.DenseOnOneGPU
		}
		if a.PassTimes.Form() == timing.Operators {
			rows = e.Operators
		}
		tpot = accuracy.SpreadOf(rows, class, func(r *accuracy.Sheet) *float64 { return r.TPOT.P99 })
		ttft = accuracy.SpreadOf(rows, class, func(r *accuracy.Sheet) *float64 { return r.TTFT.P99 })
		itl = accuracy.SpreadOf(rows, accuracy.Other, func(r *accuracy.Sheet) *float64 {
			if r.ITL == nil {
				return nil
			}
			return r.ITL.P99
		})
	} else {
		tpot = e.OfFits(func(r *accuracy.Fit) *float64 { return r.TPOT.P99 })
		ttft = e.OfFits(func(r *accuracy.Fit) *float64 { return r.TTFT.P99 })
	}
	text := fmt.Sprintf("p99 TTFT was %v and p99 TPOT %v off on %d measured runs", ttft, tpot, tpot.Rows)
	if itl.Rows > 0 {
		text += fmt.Sprintf(", p99 ITL %v on the %d runs that have it", itl, itl.Rows)
	}
	return text
}

// DataSheetsMeasured reports whether data sheets were compared with measured servers for engines like this one: a
// dense model on one GPU, with vLLM's own rules.
func DataSheetsMeasured(a *engineargs.Args) bool {
	f, ok := a.PassTimes.Fit()
	return ok && f.Model.MoE == nil && f.GPUs() == 1 && a.Engine == engineargs.VLLM && !a.Rules.Reference()
}

// schedulerRules describes the scheduler rules of an engine.
func schedulerRules(a *engineargs.Args) string {
	if a.Engine == engineargs.TRTLLM {
		return describeTRTLLM(a)
	}
	if a.Engine == engineargs.SGLang {
		overlap := "a pass planned while one runs"
		if a.SGLang.NoOverlap {
			overlap = "no pass planned while one runs"
		}
		if a.DPSize > 1 {
			overlap += fmt.Sprintf(", over %d ranks in lockstep", a.DPSize)
		}
		return fmt.Sprintf("sglang-0.5.23's own rules, %s requests at once, chunks of %d tokens, %s", limitText(a.SGLang.MaxRunning), a.SGLang.ChunkTokens, overlap)
	}
	if a.Rules.Reference() {
		return "vLLM, by the reference's rules, which differ from vLLM's own: --scheduler-profile"
	}
	if rules, err := releases.ParseProfile(a.Profile); err != nil || rules != a.Rules {
		return "vLLM, by rules that were chosen one by one"
	}
	return fmt.Sprintf("%s's own rules, %s requests at once, %s tokens a pass%s", a.Profile, limitText(a.MaxSeqs), limitText(a.MaxBatchedTokens), describeLimits(a))
}

// limitText formats a limit of an engine.
func limitText(n int) string {
	if n == engineargs.Unlimited {
		return "any number of"
	}
	return strconv.Itoa(n)
}

// describeUneven describes transfers between workers with different numbers of GPUs. describeUneven returns "" if the
// numbers are equal.
func (t *Topology) describeUneven() string {
	prefill, _, _ := t.Pools[0].Engine.PassTimes.GPUs()
	decode, _, _ := t.Pools[1].Engine.PassTimes.GPUs()
	if prefill == decode || t.Pools[0].Engine.TransferGBPerSecond == 0 {
		return ""
	}
	return fmt.Sprintf(", the lower of both pools (GPUs a worker: prefill %d, decode %d); converting KV blocks from one to the other takes no time", prefill, decode)
}

// transferOf describes the duration of a transfer from prefill to decode.
func transferOf(a *engineargs.Args) string {
	text := fmt.Sprintf("%d bytes a token at %g GB/s", a.KVBytesPerToken, a.TransferGBPerSecond)
	switch latency := a.TransferLatencyMs; {
	case a.KVBytesPerToken > 0 && a.TransferGBPerSecond > 0 && latency > 0:
		return fmt.Sprintf("%g ms, and %s", latency, text)
	case a.KVBytesPerToken > 0 && a.TransferGBPerSecond > 0:
		return text
	case latency > 0:
		return fmt.Sprintf("%g ms, whatever the size", latency)
	}
	return "handoffs take no time"
}

// OnEngine returns f with the settings of an engine.
func OnEngine(f hardware.Fit, a *engineargs.Args) hardware.Fit {
	f.BlockTokens, f.SGLang = a.BlockTokens, a.Engine == engineargs.SGLang
	start, _ := releases.StartOf(a.Profile)
	f.TimesYarn = start.TimesYarn
	if a.MaxSeqs != engineargs.Unlimited {
		f.MaxSeqs = a.MaxSeqs
	}
	if a.MaxBatchedTokens != engineargs.Unlimited {
		f.MaxBatch = a.MaxBatchedTokens
	}
	f.Groups = groupsOf(&f, a)
	return f
}
