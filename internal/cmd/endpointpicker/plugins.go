package endpointpicker

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// notSimulated marks types of plugins that are rejected.
const notSimulated = "not simulated"

// allDoBoth is the reason for which plugins for prefill and decode workers have no effect without such workers.
const allDoBoth = "all workers prefill and decode"

// pluginTypes returns all known types of plugins. The value is the reason for which a type has no effect, or "" for
// simulated types.
func pluginTypes() map[string]string {
	types := map[string]string{"single-profile-handler": "", approximateProducer: "", preciseProducer: "", inFlightProducer: "", holdback: "",
		disaggHandler: "", pdHandler: ""}
	for _, k := range policy.FilterKinds() {
		types[string(k)] = ""
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
		allDoBoth:                                     decodeFilter + " " + prefillFilter + " prefill-header-handler disagg-headers-handler " + alwaysDecider + " " + prefixDecider,
		"requests have no images":                     multimodalDecider,
		"metrics are read at fixed times": "metrics-data-source core-metrics-extractor model-server-protocol-metrics endpoint-notification-source " +
			"models-data-source model-server-protocol-models",
		"requests are taken as they are":                  "openai-parser vllmgrpc-parser passthrough-parser",
		"held requests go by priority, then as they came": "fcfs-ordering-policy global-strict-fairness-policy static-usage-limit-policy",
		notSimulated: "no-hit-lru-filter context-length-aware latency-scorer topology-affinity-scorer topology-affinity-filter " +
			"by-label by-label-selector slo-headroom-tier-filter data-parallel-profile-handler " +
			"round-robin-fairness-policy edf-ordering-policy predicted-latency-scorer predicted-latency-producer latency-slo-admitter " +
			"soft-reflective-ceiling-policy endpoint-attribute-scorer endpoint-attribute-filter model-affinity-filter load-aware-picker",
	} {
		for name := range strings.FieldsSeq(names) {
			types[name] = why
		}
	}
	return types
}

// Types of plugins that are not filters and not scorers.
const (
	approximateProducer = "approx-prefix-cache-producer"
	preciseProducer     = "precise-prefix-cache-producer"
	inFlightProducer    = "inflight-load-producer"
	holdback            = "priority-holdback-policy"
)

// preciseParameters are the parameters of precise-prefix-cache plugins, which read KV events.
type preciseParameters struct {
	Speculative bool   `yaml:"speculativeIndexing"`
	TTL         string `yaml:"speculativeTTL"`
	Tokens      any    `yaml:"tokenProcessorConfig"`
	Indexer     any    `yaml:"indexerConfig"`
	Events      any    `yaml:"kvEventsConfig"`
}

// approximateParameters are the parameters of approximate prefix plugins, which record the worker of each sent
// prompt. The simulation uses the block size of the engine and ignores the configured block sizes.
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

// loadParameters are the parameters of scorers that count requests or tokens.
type loadParameters struct {
	Threshold int      `yaml:"threshold"`
	Tokens    int      `yaml:"queueThresholdTokens"`
	NonText   float64  `yaml:"nonTextTokenWeight"` // no effect, because the simulation has only text
	Idle      int      `yaml:"idleThreshold"`
	Busy      *float64 `yaml:"maxBusyScore"`
	Timeout   string   `yaml:"requestTimeout"`
	Producer  string   `yaml:"inFlightLoadProducerName"`
}

// Defaults of llm-d's router.
const (
	speculativeTTL   = 2000 // ms
	prefixCapacity   = 31250
	prefixTokens     = 131072
	loadAwareWaiting = 128
	tokenLoadTokens  = 4194304
	noHitWorkers     = 1024
)

// readScorer returns the scorer of a plugin, without its weight.
func (c *pickerConfig) readScorer(x *pickerPlugin) (s policy.Scorer, err error) {
	s.Kind = policy.ScorerKind(x.Type)
	switch s.Kind {
	case policy.PrecisePrefix:
		s.Relative = c.isFirstVersion()
		s.Prefix, err = readPrecise(x)
	case policy.ApproximatePrefix:
		s.Kind, s.Prefix, err = c.readApproximate(x)
	case policy.LoadAware, policy.ActiveRequests, policy.TokenLoad:
		err = readLoad(x, &s)
	case policy.SessionAffinity:
		err = readSession(x)
	case policy.NoHitLRU:
		err = c.readNoHit(x, &s)
	default:
		err = readParameters(x, &struct{}{})
	}
	return s, err
}

// noHitParameters are the parameters of the scorer for requests without a prefix cache hit.
type noHitParameters struct {
	Size     int    `yaml:"lruSize"`
	Producer string `yaml:"prefixMatchInfoProducerName"`
	Type     string `yaml:"prefixPluginType"` // Type and Name have no effect
	Name     string `yaml:"prefixPluginName"`
}

// readNoHit reads a scorer for requests without a prefix cache hit. readNoHit uses the cached prefixes of the named
// producer. Without a name it uses the only producer, then a precise prefix scorer, then sent prompts.
func (c *pickerConfig) readNoHit(x *pickerPlugin, s *policy.Scorer) error {
	var own noHitParameters
	if err := readParameters(x, &own); err != nil {
		return err
	}
	if s.Full = noHitWorkers; own.Size > 0 {
		s.Full = own.Size
	}
	var err error
	if s.Match, s.Prefix, err = c.readProducer(own.Producer); s.Match != "" || err != nil {
		return err
	}
	for i := range c.Plugins {
		if c.Plugins[i].Type == string(policy.PrecisePrefix) {
			s.Match = policy.PrecisePrefix
			s.Prefix, err = readPrecise(&c.Plugins[i])
			return err
		}
	}
	s.Match = policy.ApproximatePrefix
	s.Prefix, err = (&approximateParameters{}).prefix()
	return err
}

// readParameters decodes the parameters of a plugin. readParameters rejects unknown parameters.
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
		_, text, _ := strings.Cut(first, "] ") // remove the position, because it refers to the text created above and not to the file
		return errors.New(text)
	}
	return nil
}

// readPrecise reads the parameters of a precise-prefix-cache plugin.
func readPrecise(x *pickerPlugin) (policy.Prefix, error) {
	var p preciseParameters
	if err := readParameters(x, &p); err != nil || !p.Speculative {
		return policy.Prefix{}, err
	}
	if p.TTL == "" {
		return policy.Prefix{Speculative: speculativeTTL}, nil
	}
	d, err := time.ParseDuration(p.TTL)
	switch {
	case err != nil:
		return policy.Prefix{}, excerpt.Errorf("speculativeTTL is %q, must be a duration such as 2s", p.TTL)
	case d <= 0:
		return policy.Prefix{Speculative: speculativeTTL}, nil
	}
	return policy.Prefix{Speculative: sim.Time(d.Seconds() * 1000)}, nil
}

// readApproximate reads the parameters of a prefix scorer and of its producer. The producer determines the kind of
// the scorer.
func (c *pickerConfig) readApproximate(x *pickerPlugin) (policy.ScorerKind, policy.Prefix, error) {
	var own approximateParameters
	if err := readParameters(x, &own); err != nil {
		return "", policy.Prefix{}, err
	}
	if own.LengthWeight != nil && *own.LengthWeight != 0 {
		return "", policy.Prefix{}, fmt.Errorf("prefixLengthWeight is %v, and only 0 is simulated", *own.LengthWeight)
	}
	if kind, p, err := c.readProducer(own.Producer); kind != "" || err != nil {
		return kind, p, err
	}
	p, err := own.prefix()
	return policy.ApproximatePrefix, p, err
}

// readProducer returns the kind and the parameters of the prefix producer with the given name. The kind is "" if the
// name is empty and there is no producer.
func (c *pickerConfig) readProducer(name string) (kind policy.ScorerKind, p policy.Prefix, err error) {
	from := c.findProducer(name)
	switch {
	case from == nil && name != "":
		return "", p, excerpt.Errorf("prefixMatchInfoProducerName is %q, which is none of the producers of prefixes", name)
	case from == nil:
		return "", p, nil
	case from.Type == preciseProducer:
		kind = policy.PrecisePrefix
		p, err = readPrecise(from)
	default:
		kind = policy.ApproximatePrefix
		var own approximateParameters
		if err = readParameters(from, &own); err == nil {
			p, err = own.prefix()
		}
	}
	if err != nil {
		err = fmt.Errorf("of %s: %w", from.Name, err)
	}
	return kind, p, err
}

// prefix converts the parameters to a policy.Prefix.
func (a *approximateParameters) prefix() (p policy.Prefix, err error) {
	if a.Capacity < 0 || a.Blocks < 0 || a.Tokens != nil && *a.Tokens < 0 {
		return p, errors.New("lruCapacityPerServer, maxPrefixBlocksToMatch and maxPrefixTokensToMatch must be numbers of at least 0")
	}
	if a.AutoTune != nil && !*a.AutoTune {
		p.Capacity = cmp.Or(a.Capacity, prefixCapacity)
	}
	switch {
	case a.Tokens != nil && *a.Tokens > 0:
		p.Longest = *a.Tokens
	case a.Blocks > 0:
		p.LongestBlocks = a.Blocks
	case a.Tokens == nil:
		p.Longest = prefixTokens
	}
	return p, nil
}

// findProducer returns the prefix producer with the given name, or nil. An empty name selects the approximate
// producer.
func (c *pickerConfig) findProducer(name string) *pickerPlugin {
	for i := range c.Plugins {
		switch x := &c.Plugins[i]; {
		case x.Type != approximateProducer && x.Type != preciseProducer:
		case x.Name == name, name == "" && x.Type == approximateProducer:
			return x
		}
	}
	return nil
}

// readLoad reads the parameters of a scorer that counts requests or tokens.
func readLoad(x *pickerPlugin, s *policy.Scorer) error {
	var p loadParameters
	if err := readParameters(x, &p); err != nil {
		return err
	}
	switch s.Kind {
	case policy.LoadAware:
		if s.Full = p.Threshold; s.Full <= 0 {
			s.Full = loadAwareWaiting
		}
		return nil
	case policy.TokenLoad:
		if s.Full = p.Tokens; s.Full <= 0 {
			s.Full = tokenLoadTokens
		}
		return nil
	}
	s.Idle, s.Busy = max(p.Idle, 0), 1
	if p.Busy != nil && *p.Busy >= 0 && *p.Busy <= 1 {
		s.Busy = *p.Busy
	}
	return nil
}
