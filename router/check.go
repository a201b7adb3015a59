package router

import (
	"math"
	"strconv"
)

// withWeight applies the deprecated overlap_score_weight: it was the weight of
// prefill blocks, and 0 switched caches off too.
func (c Config) withWeight() Config {
	if c.weight == nil {
		return c
	}
	c.PrefillLoadScale = *c.weight
	if *c.weight == 0 {
		c.OverlapScoreCredit = 0
	}
	c.weight = nil
	return c
}

// configKey is a key of the configuration.
type configKey struct {
	name string
	// read reads the value; it returns what was wanted instead, "" when all is
	// well.
	read func(raw string) (want string)
	// check returns the value that was read and what was wanted instead, "" when
	// it is in range; nil: every value is.
	check func() (value, want string)
}

// keys returns all keys, in the order in which their ranges are checked.
func (c *Config) keys() []configKey {
	l := &c.Live
	return []configKey{
		{"overlap_score_credit", number(&c.OverlapScoreCredit), c.checkCredit},
		{"prefill_load_scale", number(&c.PrefillLoadScale), positive(&c.PrefillLoadScale)},
		{"host_cache_hit_weight", number(&l.HostCacheHitWeight), part01(&l.HostCacheHitWeight)},
		{"disk_cache_hit_weight", number(&l.DiskCacheHitWeight), part01(&l.DiskCacheHitWeight)},
		{"router_temperature", number(&c.Temperature), positive(&c.Temperature)},
		{"router_snapshot_threshold", orNull(&l.SnapshotThreshold, parseUint32), orNone(&l.SnapshotThreshold, atLeastOne)},
		{"router_ttl_secs", number(&l.TTLSeconds), positive(&l.TTLSeconds)},
		{"router_queue_threshold", orNull(&c.QueueThreshold, parseNumber), orNone(&c.QueueThreshold, positive)},
		{"router_event_threads", integer(&l.EventThreads), atLeastOne(&l.EventThreads)},
		{"shared_cache_multiplier", number(&l.SharedCacheMultiplier), part01(&l.SharedCacheMultiplier)},
		{"overlap_score_weight", orNull(&c.weight, parseNumber), nil}, // prefill_load_scale by then
		{"router_track_active_blocks", boolean(&c.TrackActiveBlocks), nil},
		{"router_assume_kv_reuse", boolean(&c.AssumeKVReuse), nil},
		{"router_track_prefill_tokens", boolean(&c.TrackPrefillTokens), nil},
		{"router_prefill_load_model", oneOf(&c.PrefillLoadModel, LoadNone, LoadAIC), nil},
		{"router_queue_policy", oneOf(&c.QueuePolicy, FCFS, LCFS, WSPT), nil},
		{"shared_cache_type", oneOf(&l.SharedCacheType, "none", "hicache"), nil},
		{"use_kv_events", boolean(&l.UseKVEvents), nil},
		{"durable_kv_events", boolean(&l.DurableKVEvents), nil},
		{"router_replica_sync", boolean(&l.ReplicaSync), nil},
		{"router_reset_states", boolean(&l.ResetStates), nil},
		{"router_track_output_blocks", boolean(&l.TrackOutputBlocks), nil},
		{"skip_initial_worker_wait", boolean(&l.SkipInitialWorkerWait), nil},
		{"use_remote_indexer", boolean(&l.UseRemoteIndexer), nil},
		{"serve_indexer", boolean(&l.ServeIndexer), nil},
	}
}

// check returns what is out of range; only when all is within, the first rule
// between keys that is broken.
func (c *Config) check() []Fault {
	var faults []Fault
	for _, k := range c.keys() {
		if k.check == nil {
			continue
		}
		if value, want := k.check(); want != "" {
			faults = append(faults, Fault{Key: k.name, Value: value, Want: want, Range: value != ""})
		}
	}
	if broken := c.brokenRule(); len(faults) == 0 && broken != "" {
		faults = []Fault{{Want: broken}}
	}
	return faults
}

// inRange returns the check of a value that is to be at least lo and at most hi.
func inRange[T float64 | uint32](v *T, lo, hi T, want string) func() (string, string) {
	return func() (string, string) {
		if *v >= lo && *v <= hi {
			return "", ""
		}
		return formatNumber(float64(*v)), want
	}
}

func part01(v *float64) func() (string, string) { return inRange(v, 0, 1, "from 0 to 1") }

func positive(v *float64) func() (string, string) {
	return inRange(v, 0, math.Inf(1), "at least 0")
}

func atLeastOne(v *uint32) func() (string, string) {
	return inRange(v, 1, math.MaxUint32, "at least 1")
}

// orNone returns the check of a value that may be nil.
func orNone[T any](v **T, check func(*T) func() (string, string)) func() (string, string) {
	return func() (string, string) {
		if *v == nil {
			return "", ""
		}
		return check(*v)()
	}
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// checkCredit returns its complaint whole, without the value.
func (c *Config) checkCredit() (value, want string) {
	v := c.OverlapScoreCredit
	if v >= 0 && v <= 1 {
		return "", ""
	}
	want = "overlap_score_credit must be between 0.0 and 1.0; it is " + formatNumber(v)
	if v > 1 {
		want += ": to weigh prefill more heavily, keep it at most 1.0 and raise prefill_load_scale instead"
	}
	return "", want
}

// brokenRule returns the first rule between keys that c breaks, "" if there is none.
func (c *Config) brokenRule() string {
	estimated := c.PrefillLoadModel != LoadNone
	switch {
	case c.Live.DurableKVEvents && !c.Live.UseKVEvents:
		return "durable_kv_events requires use_kv_events=true"
	case c.Live.TrackOutputBlocks && !c.TrackActiveBlocks:
		return "router_track_output_blocks requires router_track_active_blocks=true"
	case estimated && !c.TrackPrefillTokens:
		return "router_prefill_load_model requires router_track_prefill_tokens=true"
	case estimated && c.QueuePolicy != FCFS:
		return "router_prefill_load_model currently requires router_queue_policy='fcfs'"
	case c.Live.UseRemoteIndexer && c.Live.ServeIndexer:
		return "use_remote_indexer and serve_indexer are mutually exclusive"
	case c.Live.ServeIndexer && !(c.OverlapScoreCredit > 0):
		return "serve_indexer requires overlap_score_credit > 0"
	}
	return ""
}
