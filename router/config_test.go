package router

import (
	"errors"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/internal/decimal"
	"github.com/replay-llm/replay/scheduler"
)

func ptr[T any](v T) *T { return &v }

// TestParseConfig sets each key and checks that only its value changes.
func TestParseConfig(t *testing.T) {
	for _, c := range []struct {
		text   string
		change func(c *Config)
	}{
		{`{}`, func(c *Config) {}},
		{` { } `, func(c *Config) {}},
		{`{"overlap_score_credit":0.5}`, func(c *Config) { c.OverlapScoreCredit = 0.5 }},
		{`{"overlap_score_credit":1}`, func(c *Config) {}},
		{`{"prefill_load_scale":3}`, func(c *Config) { c.PrefillLoadScale = 3 }},
		{`{"overlap_score_weight":2}`, func(c *Config) { c.PrefillLoadScale = 2 }},
		{`{"overlap_score_weight":2,"prefill_load_scale":7}`, func(c *Config) { c.PrefillLoadScale = 2 }},
		{`{"prefill_load_scale":7,"overlap_score_weight":null}`, func(c *Config) { c.PrefillLoadScale = 7 }},
		{`{"overlap_score_weight":0}`, func(c *Config) { c.PrefillLoadScale, c.OverlapScoreCredit = 0, 0 }},
		{`{"overlap_score_weight":0,"overlap_score_credit":7}`, func(c *Config) { c.PrefillLoadScale, c.OverlapScoreCredit = 0, 0 }},
		{`{"host_cache_hit_weight":1,"disk_cache_hit_weight":0}`, func(c *Config) { c.Live.HostCacheHitWeight, c.Live.DiskCacheHitWeight = 1, 0 }},
		{`{"router_temperature":1.5e0}`, func(c *Config) { c.Temperature = 1.5 }},
		{`{"use_kv_events":false}`, func(c *Config) { c.Live.UseKVEvents = false }},
		{`{"durable_kv_events":true}`, func(c *Config) { c.Live.DurableKVEvents = true }},
		{`{"router_replica_sync":true}`, func(c *Config) { c.Live.ReplicaSync = true }},
		{`{"router_reset_states":true}`, func(c *Config) { c.Live.ResetStates = true }},
		{`{"skip_initial_worker_wait":true}`, func(c *Config) { c.Live.SkipInitialWorkerWait = true }},
		{`{"use_remote_indexer":true}`, func(c *Config) { c.Live.UseRemoteIndexer = true }},
		{`{"serve_indexer":true}`, func(c *Config) { c.Live.ServeIndexer = true }},
		{`{"router_track_active_blocks":false}`, func(c *Config) { c.TrackActiveBlocks = false }},
		{`{"router_track_output_blocks":true}`, func(c *Config) { c.Live.TrackOutputBlocks = true }},
		{`{"router_assume_kv_reuse":false}`, func(c *Config) { c.AssumeKVReuse = false }},
		{`{"router_track_prefill_tokens":false}`, func(c *Config) { c.TrackPrefillTokens = false }},
		{`{"router_prefill_load_model":"aic"}`, func(c *Config) { c.PrefillLoadModel = LoadAIC }},
		{`{"router_snapshot_threshold":null}`, func(c *Config) { c.Live.SnapshotThreshold = nil }},
		{`{"router_snapshot_threshold":1}`, func(c *Config) { c.Live.SnapshotThreshold = ptr(uint32(1)) }},
		{`{"router_ttl_secs":0}`, func(c *Config) { c.Live.TTLSeconds = 0 }},
		{`{"router_queue_threshold":null}`, func(c *Config) { c.QueueThreshold = nil }},
		{`{"router_queue_threshold":0.5}`, func(c *Config) { c.QueueThreshold = ptr(0.5) }},
		{`{"router_event_threads":4294967295}`, func(c *Config) { c.Live.EventThreads = 4294967295 }},
		{`{"router_queue_policy":"wspt"}`, func(c *Config) { c.QueuePolicy = WSPT }},
		{`{"shared_cache_multiplier":1,"shared_cache_type":"hicache"}`, func(c *Config) { c.Live.SharedCacheMultiplier, c.Live.SharedCacheType = 1, "hicache" }},
		{`{"unknown":[{"a":1e999}],"unknown":null,"router_queue_policy":"lcfs"}`, func(c *Config) { c.QueuePolicy = LCFS }},
	} {
		want := DefaultConfig()
		c.change(&want)
		got, err := ParseConfig([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", c.text, got, want)
		}
	}
}

func TestParseConfigFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		// Syntax errors.
		{``, `the text ends too early, must be a JSON object`},
		{`{"x":1`, `the text ends too early, must be a JSON object`},
		{`3`, `must be a JSON object`},
		{`[1]`, `must be a JSON object`},
		{`nope`, `invalid character 'o' in literal null (expecting 'u')`},
		{`{} x`, `the JSON object is followed by other text, must be the last`},
		{`{} {}`, `the JSON object is followed by other text, must be the last`},
		// Type errors.
		{`{"router_ttl_secs":1,"router_ttl_secs":1}`, `router_ttl_secs: given twice, must be unique`},
		{`{"router_ttl_secs":1,"router\u005fttl_secs":1}`, `router_ttl_secs: given twice, must be unique`},
		{`{"router_ttl_secs":"3"}`, `router_ttl_secs is "3", must be a number that fits in 64 bits`},
		{`{"router_ttl_secs":1e400}`, `router_ttl_secs is 1e400, must be a number that fits in 64 bits`},
		{`{"router_temperature":null}`, `router_temperature is null, must be a number that fits in 64 bits`},
		{`{"router_queue_threshold":"x"}`, `router_queue_threshold is "x", must be a number that fits in 64 bits or null`},
		{`{"router_event_threads":4.0}`, `router_event_threads is 4.0, must be an integer from 0 to 4294967295`},
		{`{"router_event_threads":1e1}`, `router_event_threads is 1e1, must be an integer from 0 to 4294967295`},
		{`{"router_event_threads":4294967296}`, `router_event_threads is 4294967296, must be an integer from 0 to 4294967295`},
		{`{"router_event_threads":null}`, `router_event_threads is null, must be an integer from 0 to 4294967295`},
		{`{"router_snapshot_threshold":-1}`, `router_snapshot_threshold is -1, must be an integer from 0 to 4294967295 or null`},
		{`{"use_kv_events":1}`, `use_kv_events is 1, must be true or false`},
		{`{"router_replica_sync":null}`, `router_replica_sync is null, must be true or false`},
		{`{"router_queue_policy":"FCFS"}`, `router_queue_policy is "FCFS", must be "fcfs", "lcfs", "wspt", "priority", "wfq" or "edf"`},
		{`{"router_queue_policy":null}`, `router_queue_policy is null, must be "fcfs", "lcfs", "wspt", "priority", "wfq" or "edf"`},
		{`{"router_prefill_load_model":3}`, `router_prefill_load_model is 3, must be "none" or "aic"`},
		{`{"shared_cache_type":""}`, `shared_cache_type is "", must be "none" or "hicache"`},
		// Values out of range.
		{`{"overlap_score_credit":-0.5}`, `overlap_score_credit: overlap_score_credit must be between 0.0 and 1.0; it is -0.5`},
		{`{"overlap_score_credit":2}`, `overlap_score_credit: overlap_score_credit must be between 0.0 and 1.0; it is 2: to weigh prefill more heavily, keep it at most 1.0 and raise prefill_load_scale instead`},
		{`{"prefill_load_scale":-2}`, `prefill_load_scale: Validation error: range [-2, must be at least 0]`},
		{`{"overlap_score_weight":-1}`, `prefill_load_scale: Validation error: range [-1, must be at least 0]`},
		{`{"host_cache_hit_weight":1.5}`, `host_cache_hit_weight: Validation error: range [1.5, must be from 0 to 1]`},
		{`{"disk_cache_hit_weight":-1}`, `disk_cache_hit_weight: Validation error: range [-1, must be from 0 to 1]`},
		{`{"router_temperature":-1}`, `router_temperature: Validation error: range [-1, must be at least 0]`},
		{`{"router_snapshot_threshold":0}`, `router_snapshot_threshold: Validation error: range [0, must be at least 1]`},
		{`{"router_ttl_secs":-1}`, `router_ttl_secs: Validation error: range [-1, must be at least 0]`},
		{`{"router_queue_threshold":-1}`, `router_queue_threshold: Validation error: range [-1, must be at least 0]`},
		{`{"router_event_threads":0}`, `router_event_threads: Validation error: range [0, must be at least 1]`},
		{`{"shared_cache_multiplier":2}`, `shared_cache_multiplier: Validation error: range [2, must be from 0 to 1]`},
		{`{"router_ttl_secs":-1,"prefill_load_scale":-1,"durable_kv_events":true,"use_kv_events":false}`,
			"prefill_load_scale: Validation error: range [-1, must be at least 0]\nrouter_ttl_secs: Validation error: range [-1, must be at least 0]"},
		// Broken rules between keys, in the order in which they are checked.
		{`{"durable_kv_events":true,"use_kv_events":false,"router_track_output_blocks":true,"router_track_active_blocks":false}`,
			`durable_kv_events requires use_kv_events=true`},
		{`{"router_track_output_blocks":true,"router_track_active_blocks":false,"router_prefill_load_model":"aic","router_track_prefill_tokens":false}`,
			`router_track_output_blocks requires router_track_active_blocks=true`},
		{`{"router_prefill_load_model":"aic","router_track_prefill_tokens":false,"router_queue_policy":"lcfs"}`,
			`router_prefill_load_model requires router_track_prefill_tokens=true`},
		{`{"router_prefill_load_model":"aic","router_queue_policy":"lcfs","use_remote_indexer":true,"serve_indexer":true}`,
			`router_prefill_load_model currently requires router_queue_policy='fcfs'`},
		{`{"use_remote_indexer":true,"serve_indexer":true,"overlap_score_credit":0}`,
			`use_remote_indexer and serve_indexer are mutually exclusive`},
		{`{"serve_indexer":true,"overlap_score_weight":0}`, `serve_indexer requires overlap_score_credit > 0`},
	} {
		_, err := ParseConfig([]byte(c.text))
		var typed *ConfigError
		if !errors.As(err, &typed) {
			t.Errorf("%s: error %v, want a *ConfigError", c.text, err)
			continue
		}
		if want := "Failed to parse KvRouterConfig JSON: " + c.want; err.Error() != want {
			t.Errorf("%s\n got %s\nwant %s", c.text, err, want)
		}
	}
}

// TestForRole checks the changes for roles in docs/rules/router.md, "Prefill and decode routers".
func TestForRole(t *testing.T) {
	c := DefaultConfig()
	c.PrefillLoadModel = LoadAIC
	for _, stage := range []scheduler.Role{scheduler.Aggregated, scheduler.Prefill, scheduler.Decode} {
		want := c
		switch stage {
		case scheduler.Prefill:
			want.TrackActiveBlocks = false
		case scheduler.Decode:
			want.OverlapScoreCredit, want.AssumeKVReuse = 0, false
			want.TrackPrefillTokens, want.PrefillLoadModel = false, LoadNone
		}
		if got := c.ForRole(stage); got != want {
			t.Errorf("%v: %+v, want %+v", stage, got, want)
		}
	}
}

// TestDecimal checks that decimal text is parsed as the reference parses it. Some results differ from the nearest
// value by one unit in the last place.
func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"0", 0, true},
		{"-12", -12, true},
		{"0.3", 0.3, true},
		{"1e22", 1e22, true},
		{"-0.74391500080636083", -0.7439150008063607, true}, // the nearest value ends in 609
		{"0.09397298063513969", 0.09397298063513967, true},  // the nearest value ends in 969
		{"9.8765432109876543e-7", 9.876543210987656e-7, true},
		{"0.3000000000000000444", 0.30000000000000004, true},
		{"18446744073709551615", 18446744073709551615, true},
		{"184467440737095516150", 184467440737095516150, true},
		{"1.7976931348623157e308", 1.7976931348623157e308, true},
		{"1e-320", 1e-320, true},
		{"1e-99999999999999999999", 0, true},
		{"0e99999999999999999999", 0, true},
		{"1e400", 0, false},
		{"null", 0, false},
		{`"1"`, 0, false},
	} {
		got, ok := decimal.Parse(c.text)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s is %v, %t; want %v, %t", c.text, got, ok, c.want, c.ok)
		}
	}
}

// CheckKeys rejects unknown keys and names the nearest known key.
func TestCheckKeys(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{}`, ""},
		{`{"router_temperature":1,"overlap_score_weight":2,"router_ttl_secs":1}`, ""},
		{`{"router_temprature":1}`, "router_temprature: no such key, did you mean router_temperature?"},
		{`{"use_kv_event":1,"overlap_score_credits":1}`, "overlap_score_credits: no such key, did you mean overlap_score_credit?\nuse_kv_event: no such key, did you mean use_kv_events?"},
	} {
		got := ""
		if err := CheckKeys([]byte(c.text)); err != nil {
			got = err.Error()
		}
		if c.want != "" {
			c.want = "Failed to parse KvRouterConfig JSON: " + c.want
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}
