package options

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
)

// routing holds a flag for each setting of the KV router that has an effect.
type routing struct {
	config   string
	settings []Setting
}

func routerSettings() []Setting {
	return []Setting{
		{Name: "overlap-score-credit", Key: "overlap_score_credit", kind: "number", preset: "1", help: "`part` of a cached block taken off a worker's cost, 0 to 1"},
		{Name: "prefill-load-scale", Key: "prefill_load_scale", kind: "number", preset: "1", help: "`weight` of blocks to prefill against blocks in use"},
		{Name: "router-temperature", Key: "router_temperature", kind: "number", preset: "0", help: "`freedom` in drawing a worker; 0 takes the cheapest"},
		{Name: "router-track-active-blocks", Key: "router_track_active_blocks", kind: "bool", preset: "true", help: "count blocks in use"},
		{Name: "router-assume-kv-reuse", Key: "router_assume_kv_reuse", kind: "bool", preset: "true", help: "count blocks that running requests share once"},
		{Name: "router-track-prefill-tokens", Key: "router_track_prefill_tokens", kind: "bool", preset: "true", help: "count prompt tokens not computed yet"},
		{Name: "router-prefill-load-model", Key: "router_prefill_load_model", kind: "name", preset: "none", Names: []string{"none", "aic"}, help: "decay of prompt tokens being computed: none or aic, by `name`"},
		{Name: "router-queue-threshold", Key: "router_queue_threshold", kind: "ratio", preset: "4", help: "hold requests while every worker has this `multiple` of a pass to prefill, or unlimited"},
		{Name: "router-queue-policy", Key: "router_queue_policy", kind: "name", preset: "fcfs", Names: router.QueueOrders(), help: "order of held requests, by `name`: " + strings.Join(router.QueueOrders(), ", ")},
	}
}

// RouterFlags returns the names of the flags for settings of the KV router.
func RouterFlags() []string {
	var names []string
	for _, s := range routerSettings() {
		names = append(names, s.Name)
	}
	return names
}

func (r *routing) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&r.config, "router-config", "", "settings of the KV router: a `JSON` object with the keys of the reference, or @file")
	r.settings = routerSettings()
	for i := range r.settings {
		r.settings[i].Bind(fs)
	}
}

// FillRouter reads the settings of the KV router, over which the flags win.
func (o *Options) FillRouter(spec *replay.Spec) error {
	if o.FirstChanged(append(RouterFlags(), "router-config")...) == "" {
		return nil
	}
	text := []byte("{}")
	if o.Changed("router-config") {
		var err error
		if text, err = engineargs.Load(o.Router.config); err != nil {
			return fmt.Errorf("--router-config: %w", err)
		}
	}
	config, err := router.ParseConfig(text)
	if err == nil && o.compat == "" && !o.Reference {
		err = router.CheckKeys(text)
	}
	if err == nil {
		if text, err = o.Router.mergeFlags(text); err == nil {
			config, err = router.ParseConfig(text)
		}
	}
	if err != nil {
		return o.routerError(err)
	}
	spec.RouterConfig = &config
	return nil
}

// mergeFlags is the JSON object with the values of the flags in it.
func (r *routing) mergeFlags(text []byte) ([]byte, error) {
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	for _, s := range GivenOf(r.settings) {
		values[s.Key] = json.RawMessage(*s.text)
	}
	return json.Marshal(values)
}

// routerError names the flag that is to blame, if one is.
func (o *Options) routerError(err error) error {
	var config *router.ConfigError
	if !errors.As(err, &config) {
		return o.notJSON("router-config", err)
	}
	var faults []string
	for _, f := range config.Faults {
		s := byKey(GivenOf(o.Router.settings), f.Key)
		switch {
		case f.Key == "" && len(config.Faults) == 1:
			return o.notJSON("router-config", errors.New(f.Want))
		case s != nil && f.Value == "":
			return cli.Usagef("--%s=%s: %s", s.Name, s, f.Want)
		case s != nil:
			return o.Refuse(s.Name, f.Want)
		case f.Value == "" && strings.HasPrefix(f.Want, f.Key):
			faults = append(faults, f.Want)
		case f.Value == "":
			faults = append(faults, f.Key+": "+f.Want)
		default:
			faults = append(faults, fmt.Sprintf("%s is %s, want %s", f.Key, f.Value, f.Want))
		}
	}
	return fmt.Errorf("--router-config: %s", strings.Join(faults, "; "))
}
