package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
)

// routing holds a flag for each setting of the KV router that has an effect.
type routing struct {
	config   string
	settings []setting
}

func routerSettings() []setting {
	return []setting{
		{name: "overlap-score-credit", key: "overlap_score_credit", kind: "number", preset: "1", help: "`part` of a cached block taken off a worker's cost, 0 to 1"},
		{name: "prefill-load-scale", key: "prefill_load_scale", kind: "number", preset: "1", help: "`weight` of blocks to prefill against blocks in use"},
		{name: "router-temperature", key: "router_temperature", kind: "number", preset: "0", help: "`freedom` in drawing a worker; 0 takes the cheapest"},
		{name: "router-track-active-blocks", key: "router_track_active_blocks", kind: "bool", preset: "true", help: "count blocks in use"},
		{name: "router-assume-kv-reuse", key: "router_assume_kv_reuse", kind: "bool", preset: "true", help: "count blocks that running requests share once"},
		{name: "router-track-prefill-tokens", key: "router_track_prefill_tokens", kind: "bool", preset: "true", help: "count prompt tokens not computed yet"},
		{name: "router-prefill-load-model", key: "router_prefill_load_model", kind: "name", preset: "none", names: []string{"none", "aic"}, help: "decay of prompt tokens being computed: none or aic, by `name`"},
		{name: "router-queue-threshold", key: "router_queue_threshold", kind: "ratio", preset: "4", help: "hold requests while every worker has this `multiple` of a pass to prefill, or unlimited"},
		{name: "router-queue-policy", key: "router_queue_policy", kind: "name", preset: "fcfs", names: []string{"fcfs", "lcfs", "wspt"}, help: "order of held requests: fcfs, lcfs or wspt, by `name`"},
	}
}

func routerFlags() []string {
	var names []string
	for _, s := range routerSettings() {
		names = append(names, s.name)
	}
	return names
}

func (r *routing) bind(fs *pflag.FlagSet) {
	fs.StringVar(&r.config, "router-config", "", "settings of the KV router: a `JSON` object with the keys of the reference, or @file")
	r.settings = routerSettings()
	for i := range r.settings {
		r.settings[i].bind(fs)
	}
}

// fillRouter reads the settings of the KV router, over which the flags win.
func (o *options) fillRouter(spec *replay.Spec) error {
	if o.firstChanged(append(routerFlags(), "router-config")...) == "" {
		return nil
	}
	text := []byte("{}")
	if o.changed("router-config") {
		var err error
		if text, err = engineargs.Load(o.router.config); err != nil {
			return fmt.Errorf("--router-config: %w", err)
		}
	}
	config, err := router.ParseConfig(text)
	if err == nil {
		if text, err = o.router.over(text); err == nil {
			config, err = router.ParseConfig(text)
		}
	}
	if err != nil {
		return o.routerError(err)
	}
	spec.RouterConfig = &config
	return nil
}

// over is the JSON object with the values of the flags in it.
func (r *routing) over(text []byte) ([]byte, error) {
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	for _, s := range given(r.settings) {
		values[s.key] = json.RawMessage(*s.text)
	}
	return json.Marshal(values)
}

// routerError names the flag that is to blame, if one is.
func (o *options) routerError(err error) error {
	var config *router.ConfigError
	if !errors.As(err, &config) {
		return o.notJSON("router-config", err)
	}
	var faults []string
	for _, f := range config.Faults {
		s := byKey(given(o.router.settings), f.Key)
		switch {
		case f.Key == "" && len(config.Faults) == 1:
			return o.notJSON("router-config", errors.New(f.Want))
		case s != nil && f.Value == "":
			return usagef("--%s=%s: %s", s.name, s, f.Want)
		case s != nil:
			return o.refuse(s.name, f.Want)
		case f.Value == "":
			faults = append(faults, f.Want)
		default:
			faults = append(faults, fmt.Sprintf("%s is %s, want %s", f.Key, f.Value, f.Want))
		}
	}
	return fmt.Errorf("--router-config: %s", strings.Join(faults, "; "))
}
