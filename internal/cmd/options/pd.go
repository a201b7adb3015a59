package options

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/schema"
)

// pd has the flags that divide work between prefill and decode workers.
type pd struct {
	threshold, when string
	chosen, sharing cli.Choice
	sent            cli.Choice
	nic, core       float64
	admission, hold bool
}

// bestEstimate is the value of --pd-threshold that compares estimated times instead of tokens.
const bestEstimate = "best"

func (f *pd) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&f.threshold, "pd-threshold", "", "decode workers compute prompts with at most `N` tokens that they have not cached; best: prompts with a first token that is not estimated to be later there (docs/pd.md)")
	f.chosen = cli.Choice{Names: []string{"after-transfer", string(engines.BeforeTransfer), string(engines.BeforePrefill)}, Value: "after-transfer"}
	f.sharing = cli.Choice{Names: []string{"none", string(engines.ShareFairly), string(engines.ShareInTurns)}, Value: "none"}
	f.sent = cli.Choice{Names: []string{"auto", "all", "missing", "pull", "push"}, Value: "auto"}
	fs.StringVar(&f.when, "pd-when", "", "prompts go to prefill workers if this `expression` is true; decode workers compute all other prompts")
	fs.Var(&f.chosen, "decode-chosen", "`time` at which the router chooses the decode worker: after-transfer, before-transfer, or before-prefill (when the request arrives)")
	fs.Var(&f.sharing, "kv-transfer-sharing", "`mode` in which KV transfers share links: none (each transfer has a separate link), fair (max-min fairness) or fifo (one after the other)")
	fs.Float64Var(&f.nic, "nic-bandwidth", 0, "bandwidth in `GB/s` out of each prefill worker and into each decode worker, shared by its transfers")
	fs.Float64Var(&f.core, "core-bandwidth", 0, "bandwidth in `GB/s` of the network between prefill and decode workers, shared by all transfers")
	fs.Var(&f.sent, "kv-transfer", "KV `blocks` that a transfer sends: all, or missing (not cached on the decode worker).\npull (read by decode workers) and push (written by prefill workers) follow vLLM's NIXL connectors.\nauto: pull for vLLM workers with vLLM's own rules if it is supported, else all (docs/pd.md)")
	fs.BoolVar(&f.hold, "hold-prefill-blocks", false, "keep the KV blocks of a prompt on its prefill worker until they have been sent, as vLLM's connectors do")
	fs.BoolVar(&f.admission, "decode-admission", false, "delay each transfer until the decode worker has free KV blocks for the prompt")
}

// pdFlags returns the names of the flags that divide work between prefill and decode workers.
func pdFlags() []string {
	return []string{"pd-threshold", "pd-when", "decode-chosen", "kv-transfer-sharing", "nic-bandwidth", "core-bandwidth", "kv-transfer", "decode-admission", "hold-prefill-blocks"}
}

// IsOfTwoPools reports whether a flag applies only to separate prefill and decode workers. all lists the names of all
// set flags.
func IsOfTwoPools(name string, all []string) bool {
	switch name {
	case "kv-transfer-bandwidth", "kv-transfer-latency-ms", "prefill-engine-args", "decode-engine-args", "prefill-worker-speed", "decode-worker-speed":
		return true
	case "kv-bytes-per-token":
		return !slices.Contains(all, "num-g2-blocks") && !slices.Contains(all, "kv-offload-gib") && !slices.Contains(all, "enable-hierarchical-cache") && !slices.Contains(all, "host-cache-size")
	}
	if slices.Contains(pdFlags(), name) {
		return true
	}
	rows := EngineRows()
	for _, pool := range []string{"prefill-", "decode-"} {
		rest, ok := strings.CutPrefix(name, pool)
		if f := schema.Find(rows, rest); ok && f != nil && !f.Alike {
			return schema.Find(rows, name) == nil
		}
	}
	return false
}

// fillPD sets the division of work between prefill and decode workers in spec.
func (o *Options) fillPD(spec *replay.Spec) error {
	name := o.FirstChanged(pdFlags()...)
	logical := !o.IsLive() && !o.IsCluster()
	reserves := logical && spec.Topology.ReservesRoom()
	pulls := logical && o.Cluster.leavesPull() && spec.Topology.CanPull()
	switch f := &o.Cluster.pd; {
	case name == "" && (reserves || pulls):
	case name == "":
		return nil
	case !spec.Disaggregated():
		return o.Only(name, "with --prefill-workers and --decode-workers")
	case o.IsLive() || o.IsCluster():
		return o.Only(name, "with --mode offline")
	case f.threshold != "" && f.when != "":
		return cli.Usagef("--pd-threshold and --pd-when are mutually exclusive")
	}
	p := &replay.PD{Pull: pulls}
	if err := cmp.Or(o.Cluster.pd.fillRule(p), o.fillTransfers(p)); err != nil {
		return err
	}
	if reserves && (p.PicksEarly() || !o.Changed("decode-chosen")) {
		p.DecodeAdmission = p.DecodeAdmission || !o.Changed("decode-admission")
		p.HoldPrefill = p.HoldPrefill || !o.Changed("hold-prefill-blocks")
		if !p.PicksEarly() && (p.DecodeAdmission || p.HoldPrefill) {
			p.DecodeChosen = engines.BeforeTransfer
		}
	}
	spec.PD = p
	return nil
}

// leavesPull reports whether the flags permit vLLM workers to pull KV caches.
func (c *cluster) leavesPull() bool {
	switch f := &c.pd; {
	case f.sent.Value != "auto" || f.admission:
		return false
	case c.Changed("decode-chosen"):
		return f.chosen.Value != "after-transfer"
	default:
		return f.hold || !c.Changed("hold-prefill-blocks")
	}
}

// fillRule sets the rule that selects prompts for prefill workers.
func (f *pd) fillRule(p *replay.PD) error {
	switch {
	case f.threshold == bestEstimate:
		p.Best = true
	case f.threshold != "":
		n, err := strconv.Atoi(f.threshold)
		if err != nil || n < 0 {
			return cli.Usagef("--pd-threshold=%s: must be a number of tokens, at least 0, or %s", f.threshold, bestEstimate)
		}
		p.Threshold = &n
	}
	if p.When = f.when; f.when != "" {
		if _, err := policy.NewPrefillRule(f.when); err != nil {
			return fmt.Errorf("--pd-when: %w", err)
		}
	}
	return nil
}

// fillTransfers sets the links and contents of KV transfers, and the time at which decode workers are chosen. If the
// command line does not set this time, it is early if another setting requires it.
func (o *Options) fillTransfers(p *replay.PD) error {
	f := &o.Cluster.pd
	p.NIC, p.Core, p.Missing = f.nic, f.core, f.sent.Value == "missing"
	p.Push = f.sent.Value == "push"
	p.Pull = p.Pull || p.Push || f.sent.Value == "pull"
	p.DecodeAdmission, p.HoldPrefill = f.admission, f.hold || p.Pull
	for i, name := range []string{"nic-bandwidth", "core-bandwidth"} {
		if x := [...]float64{f.nic, f.core}[i]; o.Changed(name) && !(x > 0 && x <= math.MaxFloat64) {
			return o.Refuse(name, "GB/s above 0")
		}
	}
	if f.sharing.Value != "none" {
		if p.NIC == 0 && p.Core == 0 {
			return o.Only("kv-transfer-sharing", "with --nic-bandwidth or --core-bandwidth, a bandwidth to share")
		}
		p.Sharing = engines.Sharing(f.sharing.Value)
	} else if !o.Changed("kv-transfer-sharing") && (p.NIC > 0 || p.Core > 0) {
		p.Sharing = engines.ShareFairly
	}
	switch {
	case o.Changed("decode-chosen") && f.chosen.Value != "after-transfer":
		p.DecodeChosen = engines.DecodeChosen(f.chosen.Value)
	case o.Changed("decode-chosen"):
	case p.Chooses() || p.Push:
		p.DecodeChosen = engines.BeforePrefill
	case p.SharesLinks() || p.Missing || p.DecodeAdmission || p.HoldPrefill:
		p.DecodeChosen = engines.BeforeTransfer
	}
	return nil
}
