package policy

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/schema"
)

// Gateway is a policy of the registry that gateways have, with settings.
type Gateway struct {
	Name
	Settings GatewaySettings
}

var _ Choice = (*Gateway)(nil)

// GatewaySettings are settings of the policies that gateways have. Their keys are the names of the gateways' flags.
type GatewaySettings struct {
	// Gateway is the program, by its name: it has defaults, and rules where programs differ.
	Gateway string
	// CacheThreshold is the part of a prompt, from 0 to 1, of which more has to be known to send it where it is known.
	CacheThreshold float64
	// BalanceAbsThreshold and BalanceRelThreshold are how far the loads of workers, in requests, may differ before all requests go
	// to the one with the fewest: most − least above the first, and most above least times the second.
	BalanceAbsThreshold int
	BalanceRelThreshold float64
	// EvictionIntervalSecs is the time in seconds between evictions from the tree of prompts, 0: there are none.
	EvictionIntervalSecs int
	MaxTreeSize          int // tokens of the tree that a worker keeps at an eviction
}

// The gateways.
const (
	SGLangRouter = "sglang-router"
	VLLMRouter   = "vllm-router"
)

// DefaultGatewaySettings returns what no settings mean: the defaults of sglang-router.
func DefaultGatewaySettings() GatewaySettings {
	return GatewaySettings{SGLangRouter, 0.3, 64, 1.5, 60, 1 << 26}
}

// ParseGatewaySettings reads settings from a JSON object. Keys that are absent keep their defaults.
func ParseGatewaySettings(text []byte) (GatewaySettings, error) {
	s := DefaultGatewaySettings()
	values, err := schema.ReadObject(text)
	if err == nil {
		err = schema.Read(values, false, s.declare)
	}
	return s, err
}

func (s *GatewaySettings) declare(d *schema.Decl) {
	if d.Name(schema.Row{Key: "gateway", Names: []string{SGLangRouter, VLLMRouter}}) == VLLMRouter {
		*s = GatewaySettings{VLLMRouter, 0.3, 64, 1.5, 120, 1 << 25}
	}
	d.NumberIn(&s.CacheThreshold, func(x float64) bool { return x >= 0 && x <= 1 }, "a number from 0 to 1", schema.Row{Key: "cache_threshold"})
	d.Size(&s.BalanceAbsThreshold, schema.Row{Key: "balance_abs_threshold"})
	d.NumberIn(&s.BalanceRelThreshold, func(x float64) bool { return x >= 1 }, "a number of at least 1", schema.Row{Key: "balance_rel_threshold"})
	d.Size(&s.EvictionIntervalSecs, schema.Row{Key: "eviction_interval_secs"})
	d.Count(&s.MaxTreeSize, schema.Row{Key: "max_tree_size"})
	d.RefuseOthers()
}

// Recorded returns the name and the settings.
func (g *Gateway) Recorded() any { return record{Router: g.Name.String(), Gateway: &g.Settings} }

// New returns a new policy.
func (g *Gateway) New(o Options) (router.Policy, error) {
	o.Gateway = &g.Settings
	return New(g.Name, o)
}

// gateway returns the settings of a gateway's policy.
func (o *Options) gateway() GatewaySettings {
	if o.Gateway != nil {
		return *o.Gateway
	}
	return DefaultGatewaySettings()
}
