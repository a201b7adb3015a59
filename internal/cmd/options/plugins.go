package options

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// notSimulated is why a type of plugins is refused.
const notSimulated = "not simulated"

// pluginTypes returns the types of plugins that an endpoint picker knows, and why they change
// nothing here; "" for those that do what they say.
func pluginTypes() map[string]string {
	types := map[string]string{
		"single-profile-handler": "", "approx-prefix-cache-producer": "", "precise-prefix-cache-producer": "", "inflight-load-producer": "",
		"utilization-detector": "",
	}
	for _, k := range policy.ScorerKinds() {
		types[string(k)] = ""
	}
	for _, d := range policy.Draws() {
		types[string(d)] = ""
	}
	for why, names := range map[string]string{
		"tokens are counted by the trace, in no time": "tokenizer token-producer",
		"there are no adapters":                       "lora-affinity-scorer",
		"all workers prefill and decode":              "decode-filter prefill-filter prefill-header-handler disagg-headers-handler",
		"metrics are read at fixed times": "metrics-data-source core-metrics-extractor model-server-protocol-metrics endpoint-notification-source " +
			"models-data-source model-server-protocol-models",
		"requests are taken as they are":                  "openai-parser vllmgrpc-parser passthrough-parser",
		"held requests go by priority, then as they came": "fcfs-ordering-policy global-strict-fairness-policy static-usage-limit-policy",
		notSimulated: "session-affinity-scorer no-hit-lru-scorer token-load-scorer context-length-aware latency-scorer topology-affinity-scorer " +
			"by-label by-label-selector prefix-cache-affinity-filter slo-headroom-tier-filter pd-profile-handler disagg-profile-handler " +
			"data-parallel-profile-handler concurrency-detector round-robin-fairness-policy edf-ordering-policy predicted-latency-scorer",
	} {
		for name := range strings.FieldsSeq(names) {
			types[name] = why
		}
	}
	return types
}

// preciseParameters are those of plugins that follow caches.
type preciseParameters struct {
	Speculative bool   `yaml:"speculativeIndexing"`
	TTL         string `yaml:"speculativeTTL"`
	Tokens      any    `yaml:"tokenProcessorConfig"`
	Indexer     any    `yaml:"indexerConfig"`
	Events      any    `yaml:"kvEventsConfig"`
}

// approximateParameters are those of plugins that remember what was sent where. Blocks are
// the engine's, whatever the sizes say.
type approximateParameters struct {
	AutoTune     *bool    `yaml:"autoTune"`
	Capacity     int      `yaml:"lruCapacityPerServer"`
	Blocks       int      `yaml:"maxPrefixBlocksToMatch"`
	Tokens       *int     `yaml:"maxPrefixTokensToMatch"`
	BlockTokens  int      `yaml:"blockSizeTokens"`
	BlockSize    int      `yaml:"blockSize"`
	HashSize     int      `yaml:"hashBlockSize"`
	Producer     string   `yaml:"prefixMatchInfoProducerName"`
	LengthWeight *float64 `yaml:"prefixLengthWeight"`
	MaxLength    int      `yaml:"maxModelLen"`
}

// loadParameters are those of scorers by requests.
type loadParameters struct {
	Threshold int      `yaml:"threshold"`
	Idle      int      `yaml:"idleThreshold"`
	Busy      *float64 `yaml:"maxBusyScore"`
	Timeout   string   `yaml:"requestTimeout"`
	Producer  string   `yaml:"inFlightLoadProducerName"`
}

// What llm-d's router has where nothing is said.
const (
	speculativeTTL   = 2000 // ms
	prefixCapacity   = 31250
	prefixTokens     = 131072
	loadAwareWaiting = 128
)

// readScorer returns the scorer of a plugin, without its weight.
func (c *pickerConfig) readScorer(x *pickerPlugin) (s policy.Scorer, err error) {
	s.Kind = policy.ScorerKind(x.Type)
	switch s.Kind {
	case policy.PrecisePrefix:
		s.Relative = c.isFirstVersion()
		err = readPrecise(x, &s)
	case policy.ApproximatePrefix:
		err = c.readApproximate(x, &s)
	case policy.LoadAware, policy.ActiveRequests:
		err = readLoad(x, &s)
	default:
		err = readParameters(x, &struct{}{})
	}
	return s, err
}

// readParameters reads the parameters of a plugin, which has no others.
func readParameters(x *pickerPlugin, to any) error {
	if len(x.Parameters) == 0 {
		return nil
	}
	text, err := yaml.Marshal(x.Parameters)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalWithOptions(text, to, yaml.Strict()); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		_, text, _ := strings.Cut(first, "] ") // where it is in text, which nobody wrote
		return errors.New(text)
	}
	return nil
}

// readPrecise reads the parameters of a plugin that follows caches.
func readPrecise(x *pickerPlugin, s *policy.Scorer) error {
	var p preciseParameters
	if err := readParameters(x, &p); err != nil || !p.Speculative {
		return err
	}
	s.Speculative = speculativeTTL
	if p.TTL == "" {
		return nil
	}
	d, err := time.ParseDuration(p.TTL)
	if err != nil {
		return excerpt.Errorf("speculativeTTL is %q, must be a duration such as 2s", p.TTL)
	}
	if d > 0 {
		s.Speculative = sim.Time(d.Seconds() * 1000)
	}
	return nil
}

// readApproximate reads the parameters of a scorer by prefixes, and of the plugin that it
// gets them from.
func (c *pickerConfig) readApproximate(x *pickerPlugin, s *policy.Scorer) error {
	var own approximateParameters
	if err := readParameters(x, &own); err != nil {
		return err
	}
	if own.LengthWeight != nil && *own.LengthWeight != 0 {
		return fmt.Errorf("prefixLengthWeight is %v, and only 0 is simulated", *own.LengthWeight)
	}
	if from := c.findProducer(own.Producer); from != nil && from.Type == "precise-prefix-cache-producer" {
		s.Kind = policy.PrecisePrefix
		return readPrecise(from, s)
	} else if from != nil {
		if err := readParameters(from, &own); err != nil {
			return fmt.Errorf("of %s: %w", from.Name, err)
		}
	} else if own.Producer != "" {
		return excerpt.Errorf("prefixMatchInfoProducerName is %q, which is none of the producers of prefixes", own.Producer)
	}
	if own.Capacity < 0 || own.Blocks < 0 || own.Tokens != nil && *own.Tokens < 0 {
		return errors.New("lruCapacityPerServer, maxPrefixBlocksToMatch and maxPrefixTokensToMatch want numbers of at least 0")
	}
	if own.AutoTune != nil && !*own.AutoTune {
		s.Capacity = cmp.Or(own.Capacity, prefixCapacity)
	}
	switch {
	case own.Tokens != nil && *own.Tokens > 0:
		s.Longest = *own.Tokens
	case own.Blocks > 0:
		s.LongestBlocks = own.Blocks
	case own.Tokens == nil:
		s.Longest = prefixTokens
	}
	return nil
}

// findProducer returns the plugin of the given name that knows what is cached where; of no
// name the one that remembers what was sent. It returns nil where there is none.
func (c *pickerConfig) findProducer(name string) *pickerPlugin {
	for i := range c.Plugins {
		switch x := &c.Plugins[i]; {
		case x.Type != "approx-prefix-cache-producer" && x.Type != "precise-prefix-cache-producer":
		case x.Name == name, name == "" && x.Type == "approx-prefix-cache-producer":
			return x
		}
	}
	return nil
}

// readLoad reads the parameters of a scorer by requests.
func readLoad(x *pickerPlugin, s *policy.Scorer) error {
	var p loadParameters
	if err := readParameters(x, &p); err != nil {
		return err
	}
	if s.Kind == policy.LoadAware {
		if s.Full = p.Threshold; s.Full <= 0 {
			s.Full = loadAwareWaiting
		}
		return nil
	}
	s.Idle, s.Busy = max(p.Idle, 0), 1
	if p.Busy != nil && *p.Busy >= 0 && *p.Busy <= 1 {
		s.Busy = *p.Busy
	}
	return nil
}

// readThresholds reads the thresholds of a detector of saturation into a gate.
func (c *pickerConfig) readThresholds(g *router.Gate) error {
	own := c.Saturation
	for i := range c.Plugins {
		if x := &c.Plugins[i]; x.Type == "utilization-detector" {
			if err := readParameters(x, &own); err != nil {
				return fmt.Errorf("parameters of %s: %w", x.Name, err)
			}
		}
	}
	if own.Queue > 0 {
		g.Queue = own.Queue
	}
	if own.KV > 0 {
		g.KV = own.KV
	}
	return nil
}
