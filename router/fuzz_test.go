package router

import (
	"errors"
	"reflect"
	"testing"
)

// FuzzRouterConfig checks that ParseConfig rejects any text with a reason, or returns a configuration in range.
func FuzzRouterConfig(f *testing.F) {
	for _, text := range []string{
		``, `{}`, `{"overlap_score_credit":0.5,"unknown":[{"a":1e999}]}`, `{"router_queue_threshold":null,"router_queue_policy":"wspt"}`,
		`{"router_ttl_secs":-1,"prefill_load_scale":1e-320,"durable_kv_events":true,"use_kv_events":false}`, `{"router\u005fttl_secs":1} x`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		again, errAgain := ParseConfig(text)
		if !reflect.DeepEqual(c, again) || (err == nil) != (errAgain == nil) {
			t.Fatalf("%+v, %v; the second time %+v, %v", c, err, again, errAgain)
		}
		if err != nil {
			if refused := (*ConfigError)(nil); !errors.As(err, &refused) || len(refused.Faults) == 0 || err.Error() == "" {
				t.Fatalf("error %q is a %T, want a *ConfigError with its faults", err, err)
			}
			return
		}
		share := func(v float64) bool { return v >= 0 && v <= 1 }
		switch {
		case !share(c.OverlapScoreCredit), !(c.PrefillLoadScale >= 0), !(c.Temperature >= 0),
			c.QueueThreshold != nil && !(*c.QueueThreshold >= 0), c.QueuePolicy > WSPT, c.PrefillLoadModel > LoadAIC:
			t.Errorf("out of range: %+v", c)
		case !share(c.Live.HostCacheHitWeight), !share(c.Live.DiskCacheHitWeight), !(c.Live.TTLSeconds >= 0), c.Live.EventThreads == 0:
			t.Errorf("out of range: %+v", c.Live)
		}
	})
}
