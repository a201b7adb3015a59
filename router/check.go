package router

import (
	"math"
	"strconv"
)

// withWeight applies the deprecated overlap_score_weight. overlap_score_weight was the weight of prefill blocks, and
// 0 also disabled caches.
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

// configKey is a key of the configuration, and the pointer to its value.
type configKey struct {
	name string
	to   any // target of the value, of a type of readValue
	bounds
}

// bounds is the range of a number. Without want, the number has no range.
type bounds struct {
	least, most float64
	want        string
}

// listKeys returns all keys, in the order in which their ranges are checked.
func (c *Config) listKeys() []configKey {
	l := &c.Live
	free, share := bounds{}, bounds{0, 1, "from 0 to 1"}
	positive, atLeastOne := bounds{0, math.Inf(1), "at least 0"}, bounds{1, math.Inf(1), "at least 1"}
	return []configKey{
		{"overlap_score_credit", &c.OverlapScoreCredit, share},
		{"prefill_load_scale", &c.PrefillLoadScale, positive},
		{"host_cache_hit_weight", &l.HostCacheHitWeight, share},
		{"disk_cache_hit_weight", &l.DiskCacheHitWeight, share},
		{"router_temperature", &c.Temperature, positive},
		{"router_snapshot_threshold", &l.SnapshotThreshold, atLeastOne},
		{"router_ttl_secs", &l.TTLSeconds, positive},
		{"router_queue_threshold", &c.QueueThreshold, positive},
		{"router_event_threads", &l.EventThreads, atLeastOne},
		{"shared_cache_multiplier", &l.SharedCacheMultiplier, share},
		{"overlap_score_weight", &c.weight, free}, // copied to prefill_load_scale by withWeight
		{"router_track_active_blocks", &c.TrackActiveBlocks, free},
		{"router_assume_kv_reuse", &c.AssumeKVReuse, free},
		{"router_track_prefill_tokens", &c.TrackPrefillTokens, free},
		{"router_prefill_load_model", &c.PrefillLoadModel, free},
		{"router_queue_policy", &c.QueuePolicy, free},
		{"shared_cache_type", &l.SharedCacheType, free},
		{"use_kv_events", &l.UseKVEvents, free},
		{"durable_kv_events", &l.DurableKVEvents, free},
		{"router_replica_sync", &l.ReplicaSync, free},
		{"router_reset_states", &l.ResetStates, free},
		{"router_track_output_blocks", &l.TrackOutputBlocks, free},
		{"skip_initial_worker_wait", &l.SkipInitialWorkerWait, free},
		{"use_remote_indexer", &l.UseRemoteIndexer, free},
		{"serve_indexer", &l.ServeIndexer, free},
	}
}

// checkAll returns the values that are out of range. If all values are in range, checkAll returns the first rule
// between keys that is broken.
func (c *Config) checkAll() []Fault {
	var faults []Fault
	for _, k := range c.listKeys() {
		v, ok := numberAt(k.to)
		switch {
		case !ok || k.want == "" || v >= k.least && v <= k.most:
		case k.to == &c.OverlapScoreCredit:
			faults = append(faults, Fault{Key: k.name, Want: creditWanted(v)})
		default:
			faults = append(faults, Fault{Key: k.name, Value: formatNumber(v), Want: k.want, Range: true})
		}
	}
	if broken := c.brokenRule(); len(faults) == 0 && broken != "" {
		faults = []Fault{{Want: broken}}
	}
	return faults
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// creditWanted returns the complete message about an overlap_score_credit out of range.
func creditWanted(v float64) string {
	want := "overlap_score_credit must be between 0.0 and 1.0; it is " + formatNumber(v)
	if v > 1 {
		want += ": to weigh prefill more heavily, keep it at most 1.0 and raise prefill_load_scale instead"
	}
	return want
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
