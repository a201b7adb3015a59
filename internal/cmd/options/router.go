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
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/schema"
)

// routing has a flag for each setting of the KV router that has an effect.
type routing struct {
	config string
	flags  []*schema.Flag
}

func routerRows() []schema.Row {
	return []schema.Row{
		{Key: "overlap_score_credit", Kind: schema.Real, Default: "1", Help: "cost of a worker: `part` of a block that each cached block of the prompt subtracts, 0 to 1", Knob: schema.Knob{Label: "Weight of cached blocks (KV router)", Preset: "1", Steps: "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1"}},
		{Key: "prefill_load_scale", Kind: schema.Real, Default: "1", Help: "cost of a worker: `weight` of blocks to prefill, relative to blocks in use", Knob: schema.Knob{Label: "Weight of blocks to prefill (KV router)", Preset: "1", Steps: "0 0.25 0.5 0.75 1 1.5 2 3 4 6 8"}},
		{Key: "router_temperature", Kind: schema.Real, Default: "0", Help: "`temperature` of the random choice of a worker by cost; 0: always the worker with the lowest cost", Knob: schema.Knob{Label: "Router temperature (KV router)", Preset: "0", Steps: "0 0.1 0.2 0.5 1 2 5"}},
		{Key: "router_track_active_blocks", Kind: schema.Bool, Default: "true", Help: "cost of a worker: count the KV blocks of its requests in flight"},
		{Key: "router_assume_kv_reuse", Kind: schema.Bool, Default: "true", Help: "cost of a worker: count KV blocks that several requests share only once"},
		{Key: "router_track_prefill_tokens", Kind: schema.Bool, Default: "true", Help: "cost of a worker: count prompt tokens that are not computed yet"},
		{Key: "router_prefill_load_model", Kind: schema.Name, Default: "none", Names: []string{"none", "aic"}, Help: "model by which the prompt tokens of a running prefill decrease, by `name`: none or aic"},
		{Key: "router_queue_threshold", Kind: schema.Factor, Default: "4", Help: "queue requests while every worker has prompt tokens to compute for more than this `multiple` of a pass; unlimited: no queue", Knob: schema.Knob{Label: "Router queue threshold (passes, KV router)", Preset: "4"}},
		{Key: "router_queue_policy", Kind: schema.Name, Default: "fcfs", Names: router.QueueOrders(), Help: "order of queued requests, by `name`: " + strings.Join(router.QueueOrders(), ", ")},
	}
}

// RouterRows returns the settings of the KV router that have flags.
func RouterRows() []schema.Row { return schema.CompleteRows(routerRows()) }

func routerFlags() []*schema.Flag {
	return schema.NewFlags(RouterRows())
}

// RouterFlags returns the names of the flags for KV router settings.
func RouterFlags() []string {
	rows := routerRows()
	names := make([]string, len(rows), len(rows)+4)
	for i := range rows {
		names[i] = rows[i].FlagName()
	}
	return names
}

func (r *routing) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&r.config, "router-config", "", "settings of the KV router, or of a gateway's policy: a `JSON` object, or @file")
	r.flags = routerFlags()
	BindFlags(fs, r.flags)
}

// RouterConfig returns the settings of the KV router, or nil if none are set. Flags have precedence over
// --router-config.
func (o *Options) RouterConfig() (*router.Config, error) {
	if o.FirstChanged(append(RouterFlags(), "router-config")...) == "" {
		return nil, nil
	}
	text := []byte("{}")
	if o.Changed("router-config") {
		var err error
		if text, err = engineargs.Load(o.Router.config); err != nil {
			return nil, fmt.Errorf("--router-config: %w", err)
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
		return nil, o.routerError(err)
	}
	return &config, nil
}

// fillGateway sets a gateway policy with its settings in spec.
func (o *Options) fillGateway(spec *replay.Spec, name policy.Name) error {
	text, err := engineargs.Load(o.Router.config)
	if err != nil {
		return fmt.Errorf("--router-config: %w", err)
	}
	settings, err := policy.ParseGatewaySettings(name, text)
	if err != nil {
		return fmt.Errorf("--router-config: %w", err)
	}
	spec.Router = &policy.Gateway{Name: name, Settings: settings}
	return nil
}

// mergeFlags returns the JSON object with the values of flags added.
func (r *routing) mergeFlags(text []byte) ([]byte, error) {
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	for _, s := range schema.Given(r.flags) {
		values[s.Sets] = json.RawMessage(s.JSON)
	}
	return json.Marshal(values)
}

// routerError adds the name of the invalid flag to an error, if there is one.
func (o *Options) routerError(err error) error {
	var config *router.ConfigError
	if !errors.As(err, &config) {
		return o.notJSON("router-config", err)
	}
	var faults []string
	for _, f := range config.Faults {
		s := schema.Setter(schema.Given(o.Router.flags), f.Key)
		switch {
		case f.Key == "" && len(config.Faults) == 1:
			return o.notJSON("router-config", errors.New(f.Want))
		case s != nil && f.Value == "":
			return cli.Usagef("--%s=%s: %s", s.Flag, s, f.Want)
		case s != nil:
			return o.Refuse(s.Flag, f.Want)
		case f.Value == "" && strings.HasPrefix(f.Want, f.Key):
			faults = append(faults, f.Want)
		case f.Value == "":
			faults = append(faults, f.Key+": "+f.Want)
		default:
			faults = append(faults, fmt.Sprintf("%s is %s, must be %s", f.Key, f.Value, f.Want))
		}
	}
	return fmt.Errorf("--router-config: %s", strings.Join(faults, "; "))
}
