package options

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
)

// BindWorkload adds the flags of the workload, and none of the cluster. The tokenizer is of use without a trace, too.
func (o *Options) BindWorkload(cmd *cobra.Command, own ...cli.Group) {
	o.acceptNames(cmd)
	o.input.shared = &o.shared
	o.Flags.Bind(cmd, append(own,
		cli.NewGroup("Workload", o.input.bindFlags, "trace-format", "speedup", "max-in-flight", "input-tokens", "output-tokens", "request-count"),
		cli.NewGroup(leftOpenTitle, o.input.bindOpen).Rare(),
		cli.NewGroup("Run", func(fs *pflag.FlagSet) {
			fs.Uint64Var(&o.Seed, "seed", DefaultSeed, "seed of all random draws, a `number`")
			cli.BindHelp(fs)
		}))...)
	o.input.openFlags = slices.DeleteFunc(o.input.openFlags, func(name string) bool { return name == "tokenizer" })
}

// WorkloadSpec turns the flags of BindWorkload into a replay with nothing but a workload: in closed loop if requests in
// flight are given. The tokenizer of the flags is not for the trace alone.
func (o *Options) WorkloadSpec(args []string) (spec replay.Spec, tokenizer string, err error) {
	file, err := TraceFile(args)
	if err != nil {
		return spec, "", err
	}
	spec = replay.Spec{Mode: loadgen.Trace}
	spec.Seed = o.Seed
	if o.Changed("max-in-flight") {
		spec.Mode = loadgen.Concurrency
	}
	if err := cmp.Or(o.input.checkSource(file), o.input.checkInput(file, spec.Mode), o.input.fillInput(&spec, file), o.input.fillClasses(&spec)); err != nil {
		return spec, "", err
	}
	engine, err := engineargs.Parse([]byte(`{}`), engineargs.Options{})
	spec.Pools = replay.OnePool(engine, 1)
	tokenizer = o.input.open.read.Tokenizer
	if spec.Trace != nil && !registry.HasTexts(spec.Trace.Path) {
		spec.Trace.LeftOpen.Tokenizer = ""
	}
	return spec, tokenizer, err
}
