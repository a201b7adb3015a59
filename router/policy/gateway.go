package policy

import (
	"cmp"
	"strings"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/schema"
)

// Gateway is a policy of a gateway, with settings.
type Gateway struct {
	Name
	Settings GatewaySettings
}

var _ Choice = (*Gateway)(nil)

// GatewaySettings is the settings of policies of gateways. Each policy reads some of the settings.
type GatewaySettings struct {
	// Gateway is the name of the program. Gateway determines defaults, and rules that differ between programs.
	Gateway string
	// CacheThreshold is a share of a prompt, from 0 to 1. If more than this share is known, the prompt is sent to a
	// worker that got it before.
	CacheThreshold float64
	// BalanceAbsThreshold and BalanceRelThreshold are limits of the difference and the ratio of the most and the
	// least loaded worker, in requests. Above both, all requests go to the least loaded worker.
	BalanceAbsThreshold int
	BalanceRelThreshold float64
	// EvictionIntervalSecs is the time in seconds between evictions from the tree of prompts. 0 disables evictions.
	EvictionIntervalSecs int
	MaxTreeSize          int // tokens per worker that an eviction keeps in the tree
	// WorkerURL is the URL of a worker, with {id} for its number. Policies hash the URL.
	WorkerURL string `record:"omitzero"`
	// SessionExpirationSecs is the time in seconds after the latest turn of a session until the session expires.
	SessionExpirationSecs int `record:"omitzero"`
}

// The constants are the names of gateways.
const (
	SGLangRouter = "sglang-router"
	VLLMRouter   = "vllm-router"
	SMG          = "smg"
)

// idInURL stands for the number of a worker.
const idInURL = "{id}"

// DefaultGatewaySettings returns the default settings of a policy. If sglang-router has the policy, the defaults are
// those of sglang-router.
func DefaultGatewaySettings(name Name) GatewaySettings {
	switch name {
	case ConsistentHash:
		return GatewaySettings{Gateway: VLLMRouter, WorkerURL: "http://worker-" + idInURL + ":8000"}
	case StickyLeastLoaded:
		return GatewaySettings{Gateway: VLLMRouter, WorkerURL: "http://worker-" + idInURL + ":8000", SessionExpirationSecs: 7200}
	default:
		return GatewaySettings{
			Gateway: SGLangRouter, CacheThreshold: 0.3, BalanceAbsThreshold: 64, BalanceRelThreshold: 1.5, EvictionIntervalSecs: 60, MaxTreeSize: 1 << 26,
		}
	}
}

// ParseGatewaySettings parses the settings of a policy from a JSON object. Missing keys have their defaults. The keys
// of cache_aware are the names of the gateways' flags.
func ParseGatewaySettings(name Name, text []byte) (GatewaySettings, error) {
	s := DefaultGatewaySettings(name)
	values, err := schema.ReadObject(text)
	if err == nil {
		err = schema.Read(values, false, func(d *schema.Decl) { s.declare(name, d) })
	}
	return s, err
}

func (s *GatewaySettings) declare(name Name, d *schema.Decl) {
	switch name {
	case ConsistentHash, StickyLeastLoaded:
		if name == ConsistentHash {
			s.Gateway = cmp.Or(d.Name(schema.Row{Key: "gateway", Names: []string{VLLMRouter, SMG}}), s.Gateway)
		}
		d.String(&s.WorkerURL, schema.Row{Key: "worker_url"})
		if !strings.Contains(s.WorkerURL, idInURL) {
			d.FailText("worker_url", "a text with "+idInURL+", which stands for the number of the worker")
		}
		if name == StickyLeastLoaded {
			d.Count(&s.SessionExpirationSecs, schema.Row{Key: "session_expiration_secs"})
		}
	default:
		s.declareCacheAware(d)
	}
	d.RefuseOthers()
}

func (s *GatewaySettings) declareCacheAware(d *schema.Decl) {
	s.Gateway = cmp.Or(d.Name(schema.Row{Key: "gateway", Names: []string{SGLangRouter, VLLMRouter, SMG}}), s.Gateway)
	if s.Gateway == VLLMRouter {
		s.EvictionIntervalSecs, s.MaxTreeSize = 120, 1<<25
	}
	d.NumberIn(&s.CacheThreshold, func(x float64) bool { return x >= 0 && x <= 1 }, "a number from 0 to 1", schema.Row{Key: "cache_threshold"})
	d.Size(&s.BalanceAbsThreshold, schema.Row{Key: "balance_abs_threshold"})
	d.NumberIn(&s.BalanceRelThreshold, func(x float64) bool { return x >= 1 }, "a number of at least 1", schema.Row{Key: "balance_rel_threshold"})
	d.Size(&s.EvictionIntervalSecs, schema.Row{Key: "eviction_interval_secs"})
	d.Count(&s.MaxTreeSize, schema.Row{Key: "max_tree_size"})
}

// Recorded returns the name and the settings.
func (g *Gateway) Recorded() any { return record{Router: g.Name.String(), Gateway: &g.Settings} }

// New returns a new policy.
func (g *Gateway) New(o Options) (router.Policy, error) {
	o.Gateway = &g.Settings
	return New(g.Name, o)
}

// gateway returns the settings of a gateway's policy, or their defaults.
func (o *Options) gateway(name Name) GatewaySettings {
	if o.Gateway != nil {
		return *o.Gateway
	}
	return DefaultGatewaySettings(name)
}
