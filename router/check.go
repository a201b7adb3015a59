package router

import "strconv"

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

// check lists what is out of range; only when all is within, the first rule
// between keys that is broken.
func (c *Config) check() []Fault {
	var faults []Fault
	add := func(ok bool, f Fault) {
		if !ok {
			faults = append(faults, f)
		}
	}
	unit := func(key string, v float64) {
		add(v >= 0 && v <= 1, Fault{Key: key, Value: text(v), Want: "from 0 to 1", Range: true})
	}
	positive := func(key string, v float64) {
		add(v >= 0, Fault{Key: key, Value: text(v), Want: "at least 0", Range: true})
	}
	atLeastOne := func(key string, v uint32) {
		add(v >= 1, Fault{Key: key, Value: strconv.FormatUint(uint64(v), 10), Want: "at least 1", Range: true})
	}
	if c.OverlapScoreCredit < 0 || c.OverlapScoreCredit > 1 {
		faults = append(faults, creditFault(c.OverlapScoreCredit))
	}
	positive("prefill_load_scale", c.PrefillLoadScale)
	unit("host_cache_hit_weight", c.Live.HostCacheHitWeight)
	unit("disk_cache_hit_weight", c.Live.DiskCacheHitWeight)
	positive("router_temperature", c.Temperature)
	if c.Live.SnapshotThreshold != nil {
		atLeastOne("router_snapshot_threshold", *c.Live.SnapshotThreshold)
	}
	positive("router_ttl_secs", c.Live.TTLSeconds)
	if c.QueueThreshold != nil {
		positive("router_queue_threshold", *c.QueueThreshold)
	}
	atLeastOne("router_event_threads", c.Live.EventThreads)
	unit("shared_cache_multiplier", c.Live.SharedCacheMultiplier)
	if len(faults) == 0 {
		if broken := c.brokenRule(); broken != "" {
			faults = []Fault{{Want: broken}}
		}
	}
	return faults
}

func text(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func creditFault(v float64) Fault {
	f := Fault{Key: "overlap_score_credit", Want: "overlap_score_credit must be between 0.0 and 1.0"}
	if v > 1 {
		f.Want += "; it is " + text(v) + ": to weigh prefill more heavily, keep it at most 1.0 and raise prefill_load_scale instead"
	} else {
		f.Want += "; it is " + text(v)
	}
	return f
}

// brokenRule is the first rule between keys that c breaks, "" if there is none.
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
