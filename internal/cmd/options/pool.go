package options

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/schema"
)

// Pool is a pool of workers on the command line.
type Pool struct {
	Flag string         // flag for its engine arguments; flags for single settings have precedence
	Role scheduler.Role // role of the engines, even if their arguments do not contain it, except for command lines of the reference
	own  []*schema.Flag // flags for only this pool, with precedence over common flags
	Args *engineargs.Args
	from string // flag with the arguments in use
}

// TwoPools reports whether prefill and decode workers are separate. On command lines of the reference,
// --prefill-workers and --decode-workers do not separate them.
func (o *Options) TwoPools() bool {
	return o.Cluster.Half || o.FirstChanged("prefill-engine-args", "decode-engine-args") != "" || o.Engine.ownSettings() ||
		!o.Reference && o.FirstChanged("prefill-workers", "decode-workers") != ""
}

// ownSettings reports whether flags for only one of two pools are set. The reference does not have such flags.
func (e *engine) ownSettings() bool {
	return len(schema.Given(e.Own[0]))+len(schema.Given(e.Own[1])) > 0
}

// fillEngines sets the pools with their engines in spec.
func (o *Options) fillEngines(spec *replay.Spec) error {
	switch n := len(o.Config.deployments); {
	case o.Cluster.isMixed():
		return o.fillMix(spec)
	case n > 1:
		return o.Refuse("deployment", fmt.Sprintf("one, or --workers with how many there are of each of the %d", n))
	}
	pools, err := o.givenPools()
	if err != nil {
		return err
	}
	c := &o.Cluster
	var given engines.ByRole[*engineargs.Args]
	for i := range pools {
		p := &pools[i]
		if err := o.ParseEngine(p); err != nil {
			return err
		}
		given[p.Role] = p.Args
	}
	if err := o.CheckEngines(pools); err != nil {
		return err
	}
	if o.givesPoolHardware() {
		narrowLink(given[scheduler.Prefill], given[scheduler.Decode])
	}
	spec.Pools, err = engines.JoinPools(engines.ByRole[int]{c.Workers, c.PrefillWorkers, c.DecodeWorkers}, given)
	return err
}

// givesPoolHardware reports whether hardware flags for only one pool are set, such as --prefill-tp.
func (o *Options) givesPoolHardware() bool {
	return slices.ContainsFunc(slices.Concat(schema.Given(o.Engine.Own[0]), schema.Given(o.Engine.Own[1])), func(f *schema.Flag) bool { return IsHardware(&f.Row) })
}

// narrowLink sets the bandwidth of KV transfers to the lower bandwidth of the two pools. A pool with fewer GPUs per
// worker has a lower bandwidth, because each GPU has a share of the network.
func narrowLink(prefill, decode *engineargs.Args) {
	if prefill == nil || decode == nil {
		return
	}
	least := min(prefill.TransferGBPerSecond, decode.TransferGBPerSecond)
	prefill.TransferGBPerSecond, decode.TransferGBPerSecond = least, least
}

// givenPools returns the pools for which flags are set.
func (o *Options) givenPools() ([]Pool, error) {
	one := Pool{Flag: "engine-args"}
	two := []Pool{
		{Flag: "prefill-engine-args", Role: scheduler.Prefill, own: o.Engine.Own[0]},
		{Flag: "decode-engine-args", Role: scheduler.Decode, own: o.Engine.Own[1]},
	}
	switch {
	case !o.TwoPools() && !o.Changed("engine-args") && len(schema.Given(o.Engine.Flags)) == 0:
		return nil, nil
	case !o.TwoPools():
		return []Pool{one}, nil
	case o.Reference && !o.Engine.ownSettings():
		return o.referencePools(append([]Pool{one}, two...)), nil
	case o.Changed("engine-args") && o.FirstChanged("prefill-engine-args", "decode-engine-args") != "":
		return nil, o.Only("engine-args", "without --prefill-engine-args and --decode-engine-args")
	}
	return two, nil
}

// referencePools returns the pools for which arguments are set. No pools are added, because the reference adds none.
func (o *Options) referencePools(all []Pool) []Pool {
	return slices.DeleteFunc(all, func(p Pool) bool { return !o.Changed(p.Flag) })
}

// argsReader parses the arguments of a pool. unless has defaults for arguments that are not set. If early is true,
// required arguments may be missing.
type argsReader func(early bool, unless ...engineargs.Setting) (engineargs.Args, error)

// ParseEngine parses the engine arguments of a pool. A pool without separate arguments has the common arguments.
func (o *Options) ParseEngine(p *Pool) error {
	if p.from = p.Flag; !o.Changed(p.from) {
		p.from = "engine-args"
	}
	text, err := o.engineArgs(p.from)
	if err != nil {
		return err
	}
	set := append(settingValues(o.Engine.Flags), settingValues(p.own)...)
	if o.compat != "" { // in the reference only GPU memory limits the sequence length
		set = slices.DeleteFunc(set, func(s engineargs.Setting) bool { return s.Key == lengthKey })
	}
	role := p.Role
	if o.Reference && !o.Engine.ownSettings() {
		role = scheduler.Aggregated
	}
	read := func(early bool, unless ...engineargs.Setting) (engineargs.Args, error) {
		a, err := engineargs.Parse(text, engineargs.Options{Compat: o.compat != "", Pool: role, Set: set, Unless: unless, Incomplete: early})
		if err != nil {
			return a, o.engineError(p, err)
		}
		return a, nil
	}
	a, err := read(true)
	if err != nil {
		return err
	}
	gives := func(key string) bool { return engineargs.Gives(text, set, key) }
	follows, times, err := o.following(p, &a, gives, read)
	if err != nil {
		return err
	}
	if a, err = read(false, follows...); err != nil {
		return err
	}
	if !gives(engineargs.PassTimesKey) {
		a.PassTimes = times
	}
	p.Args = &a
	return nil
}

// following returns engine arguments that follow from other settings and are not set, and the pass times. The values
// follow from the hardware, or from the server to which a timing profile was fitted. gives and read are as in
// deriveSettings.
func (o *Options) following(p *Pool, a *engineargs.Args, gives func(key string) bool, read argsReader) (all []engineargs.Setting, times timing.Source, err error) {
	if h := o.hardwareOf(p); h.Given() {
		return o.deriveSettings(h, a, gives, read)
	}
	if o.Reference || o.compat != "" {
		return nil, times, nil
	}
	if a.PassTimes.HoldsProfile() {
		all, err = engines.ProfileSettings(a, o.TwoPools())
		if gives("engine_type") {
			all = engines.DropForeign(all, a.Engine)
		}
		return all, times, err
	}
	return append(engines.DefaultSettings(a), o.EngineDefaults...), times, nil
}

// engineArgs returns the text of the engine arguments in a flag.
func (s *shared) engineArgs(flag string) ([]byte, error) {
	text, err := engineargs.Load(s.Set.Lookup(flag).Value.String())
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", s.Name(flag), err)
	}
	if len(text) == 0 && s.Changed(flag) {
		return nil, fmt.Errorf("--%s is empty, must be a JSON object", s.Name(flag))
	}
	return text, nil
}

// engineError adds the name of the invalid flag to an error.
func (o *Options) engineError(p *Pool, err error) error {
	var key *engineargs.KeyError
	if !errors.As(err, &key) {
		return o.notJSON(p.from, err)
	}
	name := key.Key
	if name == "sglang.page_size" {
		name = "block_size"
	}
	if s := o.Engine.givenFor(p, name); s != nil {
		return o.RefuseRule(s.Flag, key.Rule)
	}
	if s := o.Engine.givenPartOf(p, key); s != nil {
		return o.RefuseRule(s.Flag, key.Rule)
	}
	if object, member, ok := strings.Cut(name, "."); ok {
		if s := o.Engine.givenFor(p, object); s != nil {
			return o.RefuseMember(s.Flag, &engineargs.KeyError{Key: member, Value: key.Value, Rule: key.Rule})
		}
	}
	if s := schema.Setter(o.Engine.Flags, name); s != nil && !o.Changed(p.from) {
		if key.Value == "missing" {
			return cli.Usagef("--%s is required: it %s", s.Flag, key.Rule)
		}
		return cli.Usagef("--%s is %s by default, %s", s.Flag, key.Value, key.Rule)
	}
	return fmt.Errorf("--%s: %w", o.Name(p.from), err)
}

// notJSON returns the error of a flag that requires JSON. If the value is the path of a file, the error advises to
// add @ before the path.
func (s *shared) notJSON(flag string, err error) error {
	path := s.Set.Lookup(flag).Value.String()
	if _, missing := os.Stat(path); missing == nil {
		return fmt.Errorf("--%s=%s: must be a JSON object, or @%s for what the file holds", s.Name(flag), path, path)
	}
	return fmt.Errorf("--%s: %w", s.Name(flag), err)
}

// givenPartOf returns a set flag for a member of an object, if the object is invalid or lacks a member. Otherwise
// givenPartOf returns nil.
func (e *engine) givenPartOf(p *Pool, key *engineargs.KeyError) *schema.Flag {
	object, _, isMember := strings.Cut(key.Key, ".")
	if isMember && key.Value != "missing" {
		return nil
	}
	for _, s := range append(schema.Given(p.own), schema.Given(e.Flags)...) {
		if s.Sets == object || strings.HasPrefix(s.Sets, object+".") {
			return s
		}
	}
	return nil
}

// givenFor returns the set flag for an engine argument of a pool, or nil.
func (e *engine) givenFor(p *Pool, key string) *schema.Flag {
	if s := schema.Setter(schema.Given(p.own), key); s != nil {
		return s
	}
	return schema.Setter(schema.Given(e.Flags), key)
}

// CheckEngines returns an error for engine flags without effect on the pools.
func (o *Options) CheckEngines(pools []Pool) error {
	if err := o.checkHardware(); err != nil {
		return err
	}
	runs := map[string]bool{}
	for i := range pools {
		p := &pools[i]
		name := p.Args.Engine.String()
		runs[name] = true
		for _, s := range schema.Given(p.own) {
			if s.Only != "" && s.Only != name {
				return o.Only(s.Flag, "with "+s.Only+" engines in its pool")
			}
		}
	}
	for _, s := range schema.Given(o.Engine.Flags) {
		if s.Only == "" || runs[s.Only] {
			continue
		}
		where := "with --engine " + s.Only
		if s.Flag == "page-size" {
			where += "; vllm has --block-size"
		}
		return o.Only(s.Flag, where)
	}
	if size := o.Set.Lookup("block-size").Value.String(); o.Changed("page-size") && o.Changed("block-size") &&
		size != o.Set.Lookup("page-size").Value.String() {
		return o.Refuse("page-size", "that of --block-size, "+size+", or one of them only")
	}
	return o.checkTransfers(pools)
}

// checkTransfers returns an error for flags about KV transfers if there are no transfers.
func (o *Options) checkTransfers(pools []Pool) error {
	var bytes, bandwidth, offload bool
	for i := range pools {
		a := pools[i].Args
		bytes = bytes || a.KVBytesPerToken > 0
		bandwidth = bandwidth || a.TransferGBPerSecond > 0
		host, _ := a.HostKey()
		offload = offload || host != ""
	}
	two := o.TwoPools()
	const twoPools = "with --prefill-workers and --decode-workers"
	if err := o.Check(
		cli.Needs(two, twoPools, "kv-transfer-bandwidth", "kv-transfer-latency-ms"),
		cli.Needs(bytes, "with --kv-bytes-per-token", "kv-transfer-bandwidth"),
		cli.Needs(two || offload, twoPools+", --num-g2-blocks, --kv-offload-gib, --host-cache-size or --enable-hierarchical-cache", "kv-bytes-per-token"),
		cli.Needs(bandwidth || offload || o.Cluster.pd.nic > 0 || o.Cluster.pd.core > 0, "with --kv-transfer-bandwidth, --nic-bandwidth, --core-bandwidth, --num-g2-blocks, --kv-offload-gib, --host-cache-size or --enable-hierarchical-cache", "kv-bytes-per-token"),
	); err != nil {
		return err
	}
	return o.checkOffload(pools, offload)
}

// checkOffload returns an error for flags about offload to host memory that have no effect. offload reports whether
// some pool uses it.
func (o *Options) checkOffload(pools []Pool, offload bool) error {
	const host = "with --num-g2-blocks, --kv-offload-gib, --host-cache-size or --enable-hierarchical-cache"
	if s := transferFlag(o.Engine.Flags); s != nil && !offload {
		return o.Only(s.Flag, host)
	}
	for i := range pools {
		p := &pools[i]
		key, value := p.Args.HostKey()
		if s := transferFlag(p.own); s != nil && key == "" {
			return o.Only(s.Flag, host)
		}
		if key == "" || p.Args.KVBytesPerToken > 0 || o.Reference || o.compat != "" {
			continue
		}
		if s := o.Engine.givenFor(p, key); s != nil {
			where := "with --kv-bytes-per-token"
			if key == "kv_offload_gib" {
				where += ", or --gpu and --model"
			}
			return o.Only(s.Flag, where)
		}
		return excerpt.Errorf("--%s: %s is %s without kv_bytes_per_token, requires both", p.from, key, value)
	}
	return nil
}

// transferFlag returns the first set flag about host memory or transfers to and from it.
func transferFlag(flags []*schema.Flag) *schema.Flag {
	for _, key := range []string{"offload_batch_size", "kv_offload_connector", "bandwidth_g1_to_g2_gbps", "bandwidth_g2_to_g1_gbps",
		"sglang.hicache_ratio", "sglang.hicache_size", "sglang.hicache_write_policy", "sglang.hicache_layers",
		"bandwidth_g2_to_g3_gbps", "bandwidth_g3_to_g2_gbps"} {
		if s := schema.Setter(schema.Given(flags), key); s != nil {
			return s
		}
	}
	return nil
}
