package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
)

// pool is one pool of workers as the command line has it.
type pool struct {
	flag string         // of its engine arguments; the flags of settings win over them
	role scheduler.Role // of engines whose arguments name none
	own  []setting      // flags for this pool alone, which win over all
	args *engineargs.Args
	from string // the flag that args are from
}

// twoPools says that prefill and decode have workers of their own. On the
// reference's command line the numbers of workers alone do not say so.
func (o *options) twoPools() bool {
	return o.cluster.half || o.firstChanged("prefill-engine-args", "decode-engine-args") != "" || o.ownSettings() ||
		!o.reference && o.firstChanged("prefill-workers", "decode-workers") != ""
}

// ownSettings says that there are settings for one of two pools, which the
// reference does not have.
func (o *options) ownSettings() bool {
	return len(given(o.engine.own[0]))+len(given(o.engine.own[1])) > 0
}

// fillEngines says in spec what the engines are.
func (o *options) fillEngines(spec *replay.Spec) error {
	pools, err := o.pools()
	if err != nil {
		return err
	}
	for i := range pools {
		if err := o.parseEngine(&pools[i]); err != nil {
			return err
		}
	}
	c := &o.cluster
	given := replay.Given{Workers: c.workers, PrefillWorkers: c.prefillWorkers, DecodeWorkers: c.decodeWorkers}
	for i := range pools {
		switch p := &pools[i]; p.flag {
		case "prefill-engine-args":
			given.Prefill = p.args
		case "decode-engine-args":
			given.Decode = p.args
		default:
			given.Engine = p.args
		}
	}
	if err := o.checkEngines(pools); err != nil {
		return err
	}
	spec.Pools, err = given.Pools()
	return err
}

// pools are those that the command line says something about.
func (o *options) pools() ([]pool, error) {
	one := pool{flag: "engine-args"}
	two := []pool{
		{flag: "prefill-engine-args", role: scheduler.Prefill, own: o.engine.own[0]},
		{flag: "decode-engine-args", role: scheduler.Decode, own: o.engine.own[1]},
	}
	switch {
	case !o.twoPools() && !o.changed("engine-args") && len(given(o.engine.settings)) == 0:
		return nil, nil
	case !o.twoPools():
		return []pool{one}, nil
	case o.reference && !o.ownSettings():
		return o.referencePools(append([]pool{one}, two...)), nil
	case o.changed("engine-args") && o.firstChanged("prefill-engine-args", "decode-engine-args") != "":
		return nil, o.only("engine-args", "without --prefill-engine-args and --decode-engine-args")
	}
	return two, nil
}

// referencePools are the pools whose arguments are given, in full: the reference
// supplies nothing.
func (o *options) referencePools(all []pool) []pool {
	var given []pool
	for _, p := range all {
		if p.role = scheduler.Aggregated; o.changed(p.flag) {
			given = append(given, p)
		}
	}
	return given
}

// parseEngine reads the engine arguments of a pool. Those of both pools are the
// plain ones when it has none of its own.
func (o *options) parseEngine(p *pool) error {
	if p.from = p.flag; !o.changed(p.from) {
		p.from = "engine-args"
	}
	text, err := o.engineArgs(p.from)
	if err != nil {
		return err
	}
	a, err := engineargs.Parse(text, engineargs.Options{
		Compat: o.compat != "", Pool: p.role, Set: append(values(o.engine.settings), values(p.own)...),
	})
	if err != nil {
		return o.engineError(p, err)
	}
	p.args = &a
	return nil
}

// engineArgs is the text of engine arguments.
func (o *options) engineArgs(flag string) ([]byte, error) {
	argument := map[string]string{
		"engine-args": o.cluster.engineArgs, "prefill-engine-args": o.cluster.prefillArgs, "decode-engine-args": o.cluster.decodeArgs,
	}[flag]
	text, err := engineargs.Load(argument)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", o.name(flag), err)
	}
	if len(text) == 0 && o.changed(flag) {
		return nil, fmt.Errorf("--%s: empty, want a JSON object", o.name(flag))
	}
	return text, nil
}

// engineError names the flag that is to blame.
func (o *options) engineError(p *pool, err error) error {
	var key *engineargs.KeyError
	if !errors.As(err, &key) {
		return o.notJSON(p.from, err)
	}
	name := key.Key
	if name == "sglang.page_size" {
		name = "block_size"
	}
	if s := o.given(p, name); s != nil {
		return o.refuse(s.name, key.Want)
	}
	if s := byKey(o.engine.settings, name); s != nil && !o.changed(p.from) {
		return usagef("--%s is %s by default, want %s", s.name, key.Value, key.Want)
	}
	return fmt.Errorf("--%s: %w", o.name(p.from), err)
}

// notJSON is the error of a flag that takes JSON, with a word on files: they
// are easily named as everywhere else.
func (o *options) notJSON(flag string, err error) error {
	path := o.fs.Lookup(flag).Value.String()
	if _, missing := os.Stat(path); missing == nil {
		return fmt.Errorf("--%s=%s: want a JSON object, or @%s for what the file holds", o.name(flag), path, path)
	}
	return fmt.Errorf("--%s: %w", o.name(flag), err)
}

// given is the given flag for a key of a pool's engine arguments, or nil.
func (o *options) given(p *pool, key string) *setting {
	if s := byKey(given(p.own), key); s != nil {
		return s
	}
	return byKey(given(o.engine.settings), key)
}

// checkEngines refuses engine flags of no effect on pools.
func (o *options) checkEngines(pools []pool) error {
	if err := o.checkRoofline(); err != nil {
		return err
	}
	runs := map[string]bool{}
	for i := range pools {
		p := &pools[i]
		name := p.args.Engine.String()
		runs[name] = true
		for _, s := range given(p.own) {
			if s.engine != "" && s.engine != name {
				return o.only(s.name, "with "+s.engine+" engines in its pool")
			}
		}
	}
	for _, s := range given(o.engine.settings) {
		if s.engine == "" || runs[s.engine] {
			continue
		}
		where := "with --engine " + s.engine
		if s.name == "page-size" {
			where += "; vllm has --block-size"
		}
		return o.only(s.name, where)
	}
	if size := o.fs.Lookup("block-size").Value.String(); o.changed("page-size") && o.changed("block-size") &&
		size != o.fs.Lookup("page-size").Value.String() {
		return o.refuse("page-size", "that of --block-size, "+size+", or one of them only")
	}
	return o.checkTransfers(pools)
}

// checkTransfers refuses flags about KV blocks that go nowhere.
func (o *options) checkTransfers(pools []pool) error {
	var bytes, bandwidth, offload bool
	for i := range pools {
		a := pools[i].args
		bytes = bytes || a.KVBytesPerToken > 0
		bandwidth = bandwidth || a.TransferGBPerSecond > 0
		offload = offload || a.G2.Blocks > 0
	}
	two := o.twoPools()
	const twoPools = "with --prefill-workers and --decode-workers"
	for _, r := range []struct {
		name  string
		holds bool
		where string
	}{
		{"kv-transfer-bandwidth", two, twoPools},
		{"kv-transfer-bandwidth", bytes, "with --kv-bytes-per-token"},
		{"kv-bytes-per-token", two || offload, twoPools + ", or --num-g2-blocks"},
		{"kv-bytes-per-token", bandwidth || offload, "with --kv-transfer-bandwidth or --num-g2-blocks"},
	} {
		if o.changed(r.name) && !r.holds {
			return o.only(r.name, r.where)
		}
	}
	return o.checkOffload(pools, offload)
}

// checkOffload refuses flags about offload to host memory that have no effect;
// offload says that some pool has it.
func (o *options) checkOffload(pools []pool, offload bool) error {
	if s := transferSetting(o.engine.settings); s != nil && !offload {
		return o.only(s.name, "with --num-g2-blocks")
	}
	for i := range pools {
		p := &pools[i]
		g2 := p.args.G2.Blocks > 0
		if s := transferSetting(p.own); s != nil && !g2 {
			return o.only(s.name, "with --num-g2-blocks")
		}
		if !g2 || p.args.KVBytesPerToken > 0 || o.reference || o.compat != "" {
			continue
		}
		if s := o.given(p, "num_g2_blocks"); s != nil {
			return o.only(s.name, "with --kv-bytes-per-token")
		}
		return fmt.Errorf("--%s: num_g2_blocks is %d without kv_bytes_per_token, want both", p.from, p.args.G2.Blocks)
	}
	return nil
}

// transferSetting is the first given flag about transfers to and from the host.
func transferSetting(settings []setting) *setting {
	for _, key := range []string{"offload_batch_size", "bandwidth_g1_to_g2_gbps", "bandwidth_g2_to_g1_gbps"} {
		if s := byKey(given(settings), key); s != nil {
			return s
		}
	}
	return nil
}
