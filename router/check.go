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

// listKeys returns all keys, in the order in which their ranges are checked.
func (c *Config) listKeys() []configKey {
	l := &c.Live
	return []configKey{
		{"overlap_score_credit", readNumber(&c.OverlapScoreCredit), c.checkCredit},
		{"prefill_load_scale", readNumber(&c.PrefillLoadScale), checkPositive(&c.PrefillLoadScale)},
		{"host_cache_hit_weight", readNumber(&l.HostCacheHitWeight), checkShare(&l.HostCacheHitWeight)},
		{"disk_cache_hit_weight", readNumber(&l.DiskCacheHitWeight), checkShare(&l.DiskCacheHitWeight)},
		{"router_temperature", readNumber(&c.Temperature), checkPositive(&c.Temperature)},
		{"router_snapshot_threshold", readOrNull(&l.SnapshotThreshold, parseUint32), checkUnlessNil(&l.SnapshotThreshold, checkAtLeastOne)},
		{"router_ttl_secs", readNumber(&l.TTLSeconds), checkPositive(&l.TTLSeconds)},
		{"router_queue_threshold", readOrNull(&c.QueueThreshold, parseNumber), checkUnlessNil(&c.QueueThreshold, checkPositive)},
		{"router_event_threads", readInteger(&l.EventThreads), checkAtLeastOne(&l.EventThreads)},
		{"shared_cache_multiplier", readNumber(&l.SharedCacheMultiplier), checkShare(&l.SharedCacheMultiplier)},
		{"overlap_score_weight", readOrNull(&c.weight, parseNumber), nil}, // prefill_load_scale by then
		{"router_track_active_blocks", readBoolean(&c.TrackActiveBlocks), nil},
		{"router_assume_kv_reuse", readBoolean(&c.AssumeKVReuse), nil},
		{"router_track_prefill_tokens", readBoolean(&c.TrackPrefillTokens), nil},
		{"router_prefill_load_model", readOneOf(&c.PrefillLoadModel, LoadNone, LoadAIC), nil},
		{"router_queue_policy", readOneOf(&c.QueuePolicy, FCFS, LCFS, WSPT), nil},
		{"shared_cache_type", readOneOf(&l.SharedCacheType, "none", "hicache"), nil},
		{"use_kv_events", readBoolean(&l.UseKVEvents), nil},
		{"durable_kv_events", readBoolean(&l.DurableKVEvents), nil},
		{"router_replica_sync", readBoolean(&l.ReplicaSync), nil},
		{"router_reset_states", readBoolean(&l.ResetStates), nil},
		{"router_track_output_blocks", readBoolean(&l.TrackOutputBlocks), nil},
		{"skip_initial_worker_wait", readBoolean(&l.SkipInitialWorkerWait), nil},
		{"use_remote_indexer", readBoolean(&l.UseRemoteIndexer), nil},
		{"serve_indexer", readBoolean(&l.ServeIndexer), nil},
	}
}

// checkAll returns what is out of range; only when all is within, the first rule
// between keys that is broken.
func (c *Config) checkAll() []Fault {
	var faults []Fault
	for _, k := range c.listKeys() {
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

// checkRange returns the check of a value that is to be at least lo and at most hi.
func checkRange[T float64 | uint32](v *T, lo, hi T, want string) func() (string, string) {
	return func() (string, string) {
		if *v >= lo && *v <= hi {
			return "", ""
		}
		return formatNumber(float64(*v)), want
	}
}

func checkShare(v *float64) func() (string, string) { return checkRange(v, 0, 1, "from 0 to 1") }

func checkPositive(v *float64) func() (string, string) {
	return checkRange(v, 0, math.Inf(1), "at least 0")
}

func checkAtLeastOne(v *uint32) func() (string, string) {
	return checkRange(v, 1, math.MaxUint32, "at least 1")
}

// checkUnlessNil returns the check of a value that may be nil.
func checkUnlessNil[T any](v **T, check func(*T) func() (string, string)) func() (string, string) {
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
