package options

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
)

// takeNames lets cmd have the flags of the reference under its names, too.
func (o *Options) takeNames(cmd *cobra.Command) {
	o.Spelled = map[string]string{}
	cmd.Flags().SetNormalizeFunc(o.ourName)
}

// ourName gives the flags of the reference our names, so that its command lines
// can be used as they are, and remembers the names that were used.
func (o *Options) ourName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	given := name
	switch given {
	case "num-workers":
		name = "workers"
	case "num-prefill-workers":
		name = "prefill-workers"
	case "num-decode-workers":
		name = "decode-workers"
	case "router-mode":
		name = "router"
	case "replay-concurrency":
		name = "max-in-flight"
	case "replay-mode":
		name = "mode"
	case "extra-engine-args":
		name = "engine-args"
	case "arrival-speedup-ratio":
		name = "speedup"
	case "sglang-schedule-policy", "sglang-max-prefill-tokens", "sglang-chunked-prefill-size",
		"sglang-clip-max-new-tokens", "sglang-schedule-conservativeness":
		name = strings.TrimPrefix(name, "sglang-")
	}
	if name != given {
		o.Spelled[name] = given
	}
	return pflag.NormalizedName(name)
}

// bindReferenceOnly adds the flags of the reference that we take and do not
// offer.
func bindReferenceOnly(fs *pflag.FlagSet) {
	fs.String("planner-config", "", "")
	fs.Int("benchmark-granularity", 8, "")
	for _, name := range []string{"planner-config", "benchmark-granularity"} {
		if err := fs.MarkHidden(name); err != nil {
			panic(err)
		}
	}
}

// checkPlanner refuses what the reference's planner needs.
func (o *Options) checkPlanner() error {
	if o.Changed("planner-config") {
		return cli.Usagef("--planner-config: this program has no planner, want a run without it")
	}
	return nil
}
