package options

import (
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/plan/regret"
	"github.com/replay-llm/replay/replay"
)

// regretFlags has the flags for computing the regret of routing decisions.
type regretFlags struct {
	Wanted  bool
	Sample  int
	Horizon cli.Instant
}

// mostSampled is the maximum number of sampled decisions.
const mostSampled = 1_000_000

func (r *regretFlags) bindFlags(fs *pflag.FlagSet) {
	_ = r.Horizon.Set("30s")
	fs.BoolVar(&r.Wanted, "regret", false, "replay a sample of the routing decisions with every other worker, and report the regret (docs/policies.md)")
	fs.IntVar(&r.Sample, "regret-sample", 100, "`number` of routing decisions in the sample of --regret, evenly spread")
	fs.Var(&r.Horizon, "regret-horizon", "`time` after a routing decision: requests that arrive in it are compared for --regret")
}

// checkRegret returns an error if the regret cannot be computed for spec.
func (o *Options) checkRegret(spec *replay.Spec) error {
	r := &o.Outputs.Regret
	if !r.Wanted {
		return o.Check(cli.Needs(false, "with --regret", "regret-sample", "regret-horizon"))
	}
	if err := o.Check(cli.Wants(r.Sample >= 1 && r.Sample <= mostSampled, "regret-sample", "1 to 1000000")); err != nil {
		return err
	}
	if o.IsLive() || o.IsCluster() {
		return cli.Usagef("--regret is not supported in real time: use --mode offline")
	}
	if err := regret.Check(spec); err != nil {
		return cli.Usagef("--regret: %v", err)
	}
	return nil
}
