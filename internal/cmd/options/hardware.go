package options

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/schema"
)

// lengthKey is an engine argument that also affects the division of GPU memory.
const lengthKey = "max_model_len"

// IsHardware reports whether a setting describes hardware.
func IsHardware(r *schema.Row) bool { return strings.HasPrefix(r.Sets, hardware.SettingPrefix) }

// Hardware has the flags for the hardware of a worker.
type Hardware []*schema.Flag

// Bind adds the flags to fs.
func (h *Hardware) Bind(fs *pflag.FlagSet) {
	*h = HardwareOf(EngineFlags())
	BindFlags(fs, *h)
}

// HardwareOf returns the flags for the hardware of a worker.
func HardwareOf(flags []*schema.Flag) Hardware {
	return slices.DeleteFunc(slices.Clone(flags), func(f *schema.Flag) bool {
		return f.Sets != lengthKey && !IsHardware(&f.Row)
	})
}

// Text returns the value of a flag, or "" if it is not set.
func (h Hardware) Text(name string) string {
	for _, f := range h {
		if (f.Flag == name || f.Sets == hardware.SettingPrefix+name) && f.JSON != "" {
			return f.String()
		}
	}
	return ""
}

// flag returns the name of the flag for a setting. A flag for only one pool has priority if it is set.
func (h Hardware) flag(name string) string {
	for _, f := range h {
		if f.Sets == hardware.SettingPrefix+name {
			return f.Flag
		}
	}
	return name
}

// hardwareOf returns the hardware flags of a pool. Flags for only this pool have precedence.
func (o *Options) hardwareOf(p *Pool) Hardware {
	h := HardwareOf(o.Engine.Flags)
	for i, f := range h {
		if own := schema.Setter(schema.Given(p.own), f.Sets); own != nil && IsHardware(&own.Row) {
			h[i] = own
		}
	}
	return h
}

// Given reports whether a GPU and a model are set.
func (h Hardware) Given() bool { return h.Text("gpu") != "" && h.Text("model") != "" }

// path returns the identifier of a model on a GPU for engines.
func (h Hardware) path(gpu string) string {
	values := url.Values{}
	for key, name := range map[string]string{"tp": "tp", "pp": "pp", "ep": "ep", "dp": "dp", "weights": "quantization", "kv": "kv-cache-dtype", "graphs": "graphs", "gpu-file": "gpu-file", "op-tables": "op-tables"} {
		if text := h.Text(name); text != "" && text != "auto" {
			values.Set(key, text)
		}
	}
	path := gpu + "/" + h.Text("model")
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return path
}

// Fit returns the fit of the model on a GPU, without the engine arguments. If gpu is "", it uses the GPU of the
// flags.
func (h Hardware) Fit(gpu string) (hardware.Fit, error) {
	if gpu == "" {
		gpu = h.Text("gpu")
	}
	f, err := hardware.ParseFit(h.path(gpu))
	if err != nil {
		return f, cli.Usagef("--gpu and --model: %v", err)
	}
	if text := h.Text("gpu-memory-utilization"); text != "" {
		if f.Utilization, err = strconv.ParseFloat(text, 64); err != nil || !(f.Utilization > 0 && f.Utilization <= 1) {
			return f, cli.Usagef("--gpu-memory-utilization=%s: must be a share above 0, at most 1", text)
		}
	}
	if text := h.Text("max-model-len"); text != "" {
		if f.MaxLength, err = strconv.Atoi(text); err != nil || f.MaxLength < 1 {
			return f, cli.Usagef("--max-model-len=%s: must be at least 1", text)
		}
	}
	switch {
	case !f.Divides() && f.Model.Heads%f.TP == 0:
		l := f.Model.Linear
		return f, &UnfitError{cli.Usagef("--%s=%d: must be a divisor of the %d key heads and %d value heads of the linear layers of %s", h.flag("tp"), f.TP, l.KeyHeads, l.ValueHeads, f.Model.Name)}
	case !f.Divides():
		return f, &UnfitError{cli.Usagef("--%s=%d: must be a divisor of the %d attention heads of %s", h.flag("tp"), f.TP, f.Model.Heads, f.Model.Name)}
	case f.EP > 1 && (f.Model.MoE == nil || f.EP != f.TP*f.DP):
		return f, cli.Usagef("--ep=%d: must be 1, or --tp times --dp with a model of experts", f.EP)
	case f.PP > f.Model.Layers:
		return f, cli.Usagef("--pp=%d: must be at most the %d layers of %s", f.PP, f.Model.Layers, f.Model.Name)
	}
	return f, nil
}

// deriveSettings returns engine arguments that follow from the hardware, and the pass times. a has the given
// arguments. gives reports whether an argument is given. read parses the arguments and adds defaults.
//
// vLLM and SGLang use the same rules as their servers, except in legacy mode, which repeats the reference.
func (o *Options) deriveSettings(h Hardware, a *engineargs.Args, gives func(key string) bool, read argsReader) (all []engineargs.Setting, times timing.Source, err error) {
	f, err := h.Fit("")
	if err != nil {
		return nil, times, err
	}
	own := *a
	legacy := o.Reference || o.compat != ""
	switch {
	case legacy:
	case a.MaxLength > 0:
		f.MaxLength = a.MaxLength
	case f.Model.Context > 0:
		on := engines.OnEngine(f, a)
		all = append(all, engineargs.Setting{Key: lengthKey, Value: strconv.Itoa(on.LongestSequence())})
	}
	if !legacy {
		all = append(all, engines.OnServer(a, &f, gives)...)
		if own, err = read(true, all...); err != nil {
			return nil, times, err
		}
	}
	f = engines.OnEngine(f, &own)
	if !legacy && h.Text("gpu-memory-utilization") == "" {
		f.Utilization = engines.ServerShare(&own, &f)
	}
	if legacy && f.SGLang {
		f.Groups = hardware.Groups{} // the reference has one KV pool
	}
	path := h.path(h.Text("gpu"))
	fit, _ := hardware.ParseFit(path) // h.Fit has already parsed this path
	var of lengths
	blocks := gives("num_gpu_blocks")
	if (f.Model.WindowLayers > 0 || f.Model.Linear != nil) && f.Groups == (hardware.Groups{}) && !blocks && !legacy {
		if of = o.workloadLengths(); of.live > 0 {
			f.Live, fit.Live = of.live, of.live
			path = hardware.AddKey(path, hardware.LiveKey, strconv.Itoa(f.Live))
		}
	}
	times = timing.BySheets(path, fit)
	if !legacy && h.hasOperators(&fit) {
		times = times.ByOperators(engines.ReleaseOf(&own))
	}
	if f.DP > 1 {
		all = append(all, engineargs.Setting{Key: "dp_size", Value: strconv.Itoa(f.DP)})
	}
	if !blocks {
		b, err := f.Check()
		if err != nil {
			return nil, times, &UnfitError{cli.WrongUsage(err)}
		}
		own.Blocks = max(b.Blocks, f.BlocksFor(of.longest))
		all = append(all, engineargs.Setting{Key: "num_gpu_blocks", Value: strconv.Itoa(own.Blocks)})
	}
	if !legacy && !gives("sglang.max_running_requests") {
		all = append(all, engines.Seats(&own, &f, own.Blocks)...)
	}
	if (o.TwoPools() || a.SGLang.HiCache.On || a.TRTLLM.HostBytes > 0 || a.G2.GiB > 0) && a.KVBytesPerToken == 0 {
		all = append(all, engineargs.Setting{Key: "kv_bytes_per_token", Value: strconv.Itoa(f.TransferBytes())})
		if o.TwoPools() && a.TransferGBPerSecond == 0 {
			all = append(all, engineargs.Setting{Key: "kv_transfer_bandwidth", Value: fmt.Sprint(f.NetworkGBPerSecond())})
		}
	}
	return all, times, nil
}

// hasOperators reports whether measured operators are available for the GPU.
func (h Hardware) hasOperators(f *hardware.Fit) bool {
	return slices.Contains(optables.Names(), f.GPU.Name) && h.Text("gpu-file") == "" || h.Text("op-tables") != ""
}

// UnfitError is the error of a model that cannot run on the selected hardware. Other hardware in the same command
// line may be suitable.
type UnfitError struct{ err error }

func (e *UnfitError) Error() string { return e.err.Error() }
func (e *UnfitError) Unwrap() error { return e.err }

// checkHardware returns an error if only one of --gpu and --model is set, or if a flag has no effect.
func (o *Options) checkHardware() error {
	profile := o.FirstChanged("timing-profile", "planner-profile-data")
	var rest []string
	for _, f := range HardwareOf(o.Engine.Flags) {
		if f.Flag != "gpu" && f.Flag != "model" && f.Sets != lengthKey {
			rest = append(rest, f.Flag)
		}
	}
	for _, own := range o.Engine.Own {
		for _, f := range schema.Given(own) {
			if IsHardware(&f.Row) {
				rest = append(rest, f.Flag)
			}
		}
	}
	return o.Check(
		cli.Needs(o.Changed("model"), "with --model", "gpu"),
		cli.Needs(o.Changed("gpu"), "with --gpu", "model"),
		cli.Needs(o.Changed("gpu"), "with --gpu and --model", rest...),
		cli.Needs(profile == "", "without --"+profile, "gpu"),
		cli.Needs(!o.Changed("planner-profile-data"), "without --planner-profile-data, its other name", "timing-profile"),
	)
}
