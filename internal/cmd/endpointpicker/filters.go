package endpointpicker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// affinityParameters are the parameters of the prefix-affinity filter.
type affinityParameters struct {
	Sticky      *float64 `yaml:"affinityThreshold"`
	Explore     float64  `yaml:"explorationProbability"`
	Slower      *float64 `yaml:"maxTTFTPenaltyMs"`
	Behind      int64    `yaml:"maxTokensInFlightPenalty"`
	Source      string   `yaml:"ttftSource"`
	Penalty     string   `yaml:"penaltySource"`
	Throughput  *float64 `yaml:"peakPrefillThroughput"`
	Calibration string   `yaml:"prefillCalibrationFile"`
	Fingerprint string   `yaml:"prefillCalibrationFingerprint"`
	Required    bool     `yaml:"prefillCalibrationRequired"`
	Prefixes    string   `yaml:"prefixMatchInfoProducerName"`
	Load        string   `yaml:"inFlightLoadProducerName"`
}

// Defaults of llm-d's router. The default throughput is the value for Qwen3-32B on two H100 GPUs.
const (
	affinitySticky     = 0.8
	affinitySlower     = 18000 // ms
	affinityThroughput = 15928 // tokens per second
	limitRequests      = 100
	limitTokens        = 1000000
)

// readFilter returns the filter of a plugin.
func (c *pickerConfig) readFilter(x *pickerPlugin) (f policy.Filter, err error) {
	switch f.Kind = policy.FilterKind(x.Type); f.Kind {
	case policy.PrefixAffinity:
		err = c.readAffinity(x, &f)
	case policy.InFlightLimit:
		var p limitParameters
		if p, err = c.readLimit(x); err == nil {
			f.Requests, f.Tokens = p.limits(1 + p.Headroom)
		}
	case policy.UsageLimit:
		var t thresholds
		if t, err = c.readThresholds(x); err == nil {
			f.Queue, f.KV = t.Queue*(1+t.Headroom), t.KV*(1+t.Headroom)
		}
	case policy.SessionFilter:
		err = readSession(x)
	}
	return f, err
}

// readAffinity reads the parameters of the prefix-affinity filter.
func (c *pickerConfig) readAffinity(x *pickerPlugin, f *policy.Filter) error {
	var p affinityParameters
	if err := readParameters(x, &p); err != nil {
		return err
	}
	f.Sticky, f.Explore, f.Behind = orElse(p.Sticky, affinitySticky), p.Explore, p.Behind
	slower := orElse(p.Slower, affinitySlower)
	switch throughput := orElse(p.Throughput, affinityThroughput); {
	case !(f.Sticky >= 0 && f.Sticky <= 1):
		return fmt.Errorf("affinityThreshold is %v, must be from 0 to 1", f.Sticky)
	case !(f.Explore >= 0 && f.Explore <= 1):
		return fmt.Errorf("explorationProbability is %v, must be from 0 to 1", f.Explore)
	case !(slower >= 0 && slower < 1e12):
		return fmt.Errorf("maxTTFTPenaltyMs is %v, must be a number of at least 0", slower)
	case p.Behind < 0:
		return fmt.Errorf("maxTokensInFlightPenalty is %d, must be at least 0", p.Behind)
	case !(throughput > 0):
		return fmt.Errorf("peakPrefillThroughput is %v, must be above 0", throughput)
	case slower > 0 && p.Source != "" && p.Source != "prefillThroughput":
		return excerpt.Errorf("ttftSource is %q, and only prefillThroughput is simulated", p.Source)
	case p.Penalty != "" && p.Penalty != "constant":
		return excerpt.Errorf("penaltySource is %q, and only constant is simulated", p.Penalty)
	case slower > 0 && p.Calibration != "" && p.Throughput == nil:
		return excerpt.Errorf("prefillCalibrationFile is %q, which is not read: set peakPrefillThroughput to the value in it", p.Calibration)
	case slower > 0:
		f.Slower, f.Throughput = sim.Time(slower), throughput
	}
	var err error
	if f.Match, f.Prefix, err = c.readProducer(p.Prefixes); f.Match == "" && err == nil {
		f.Match, f.Prefix = policy.ApproximatePrefix, policy.Prefix{Longest: prefixTokens} // the router creates this producer
	}
	return err
}

// orElse returns the given value, or other if no value is given.
func orElse(given *float64, other float64) float64 {
	if given == nil {
		return other
	}
	return *given
}

// limitParameters are the parameters of the saturation detector that counts requests or tokens in flight.
type limitParameters struct {
	Mode     string   `yaml:"concurrencyMode"`
	Requests *float64 `yaml:"maxConcurrency"`
	Tokens   *float64 `yaml:"maxTokenConcurrency"`
	Headroom float64  `yaml:"headroom"`
	FailOpen *bool    `yaml:"failOpen"`
	Load     string   `yaml:"inFlightLoadProducerName"`
}

// readLimit reads the parameters of the saturation detector that counts requests or tokens in flight.
func (c *pickerConfig) readLimit(x *pickerPlugin) (p limitParameters, err error) {
	if err := readParameters(x, &p); err != nil {
		return p, err
	}
	p.Mode = cmp.Or(p.Mode, "requests")
	requests, tokens := orElse(p.Requests, limitRequests), orElse(p.Tokens, limitTokens)
	p.Requests, p.Tokens = &requests, &tokens
	switch {
	case !slices.Contains([]string{"requests", "tokens", "hybrid"}, p.Mode):
		return p, excerpt.Errorf("concurrencyMode is %q, must be requests, tokens or hybrid", p.Mode)
	case !(requests > 0):
		return p, fmt.Errorf("maxConcurrency is %v, must be above 0", requests)
	case !(tokens > 0):
		return p, fmt.Errorf("maxTokenConcurrency is %v, must be above 0", tokens)
	case !(p.Headroom >= 0):
		return p, fmt.Errorf("headroom is %v, must be at least 0", p.Headroom)
	case p.FailOpen != nil && !*p.FailOpen:
		return p, errors.New("failOpen is false, and only true is simulated")
	}
	return p, nil
}

// limits returns the maximum numbers of requests and tokens, multiplied by factor and rounded down. A number that the
// mode does not use is 0.
func (p *limitParameters) limits(factor float64) (requests, tokens float64) {
	requests, tokens = float64(int64(*p.Requests*factor)), float64(int64(*p.Tokens*factor))
	switch p.Mode {
	case "requests":
		return requests, 0
	case "tokens":
		return 0, tokens
	}
	return requests, tokens
}

// readThresholds returns the thresholds of the saturation detector that reads metrics. Parameters of the plugin have
// precedence over saturationDetector in the configuration.
func (c *pickerConfig) readThresholds(x *pickerPlugin) (thresholds, error) {
	t := c.Saturation
	if x != nil {
		if err := readParameters(x, &t); err != nil {
			return t, err
		}
	}
	if t.Queue <= 0 {
		t.Queue = 5
	}
	if t.KV <= 0 {
		t.KV = 0.8
	}
	if !(t.Headroom >= 0) {
		return t, fmt.Errorf("headroom is %v, must be at least 0", t.Headroom)
	}
	return t, nil
}

// inFlightParameters are the parameters of the producer that counts requests and tokens in flight.
type inFlightParameters struct {
	Output   bool     `yaml:"addEstimatedOutputTokens"`
	Ratio    *float64 `yaml:"outputRatio"`
	Most     *int64   `yaml:"maxEstimatedOutputTokens"`
	Prefixes string   `yaml:"prefixMatchInfoProducerName"`
	Sync     *bool    `yaml:"syncCrossReplicaState"` // no effect, because the simulation has one router
}

// countTokens enables counting prompt tokens if a filter, a scorer or the flow control reads them.
func (c *pickerConfig) countTokens(p *policy.Picker) error {
	looked := p.Gate != nil && p.Gate.Tokens > 0 || slices.ContainsFunc(p.Filters, func(f policy.Filter) bool { return f.ReadsTokens() }) ||
		slices.ContainsFunc(p.Scorers, func(s policy.Scorer) bool { return s.Kind == policy.TokenLoad })
	if !looked {
		return nil
	}
	var own inFlightParameters
	if x := c.find(inFlightProducer); x != nil {
		if err := readParameters(x, &own); err != nil {
			return fmt.Errorf("parameters of %s: %w", x.Name, err)
		}
		if own.Output {
			return fmt.Errorf("parameters of %s: addEstimatedOutputTokens is true, and only false is simulated", x.Name)
		}
	}
	kind, prefix, err := c.readProducer(own.Prefixes)
	if err != nil {
		return err
	}
	if kind == "" && (c.find(string(policy.PrefixAffinity)) != nil || c.find(string(policy.ApproximatePrefix)) != nil) {
		kind, prefix = policy.ApproximatePrefix, policy.Prefix{Longest: prefixTokens} // the router creates this producer
	}
	p.InFlight = &policy.InFlight{Match: kind, Prefix: prefix}
	return nil
}

// find returns the first plugin of a type, or nil.
func (c *pickerConfig) find(kind string) *pickerPlugin {
	if i := slices.IndexFunc(c.Plugins, func(x pickerPlugin) bool { return x.Type == kind }); i >= 0 {
		return &c.Plugins[i]
	}
	return nil
}

// readSession checks the parameters of plugins for session affinity. The simulation does not use these parameters.
func readSession(x *pickerPlugin) error {
	return readParameters(x, &struct {
		Algorithm string  `yaml:"algorithm"`
		Header    string  `yaml:"headerName"`
		Profile   string  `yaml:"profileName"`
		TTL       float64 `yaml:"evictionTtlSeconds"`
		Sweep     float64 `yaml:"evictionSweepSeconds"`
		Misses    int     `yaml:"missThreshold"`
	}{})
}

// readGate returns the flow control of the configuration.
func (c *pickerConfig) readGate() (*router.Gate, error) {
	g := &router.Gate{Each: 1, Unseen: c.find(inFlightProducer) != nil}
	x := c.find(string(policy.UsageLimit))
	if ref := c.Saturation.Ref; ref != "" {
		i := slices.IndexFunc(c.Plugins, func(x pickerPlugin) bool { return x.Name == ref })
		if i < 0 {
			return nil, excerpt.Errorf("pluginRef %q of saturationDetector is none of the plugins", ref)
		}
		x = &c.Plugins[i]
	}
	if x != nil && x.Type == string(policy.InFlightLimit) {
		p, err := c.readLimit(x)
		if err != nil {
			return nil, fmt.Errorf("parameters of %s: %w", x.Name, err)
		}
		g.Requests, g.Tokens = p.limits(1)
		g.Unseen = false
	}
	if x != nil && x.Type != string(policy.InFlightLimit) && x.Type != string(policy.UsageLimit) {
		return nil, fmt.Errorf("saturationDetector is %s of type %s, must be a %s or a %s", x.Name, x.Type, policy.UsageLimit, policy.InFlightLimit)
	}
	if g.ReadsMetrics() {
		t, err := c.readThresholds(x)
		if err != nil {
			return nil, fmt.Errorf("parameters of %s: %w", policy.UsageLimit, err)
		}
		g.Queue, g.KV = t.Queue, t.KV
	}
	return g, c.readCeilings(g)
}

// ceilingParameters are the parameters of the priority-holdback policy, which limits requests with low priority
// first.
type ceilingParameters struct {
	Shape    string            `yaml:"shape"`
	Domain   string            `yaml:"domain"`
	Least    *float64          `yaml:"minCeiling"`
	Most     *float64          `yaml:"maxCeiling"`
	Ceilings map[int32]float64 `yaml:"ceilings"`
}

// readCeilings reads the usage limit policy of the flow control.
func (c *pickerConfig) readCeilings(g *router.Gate) error {
	ref := c.Flow.Limits
	if ref == "" {
		return nil
	}
	i := slices.IndexFunc(c.Plugins, func(x pickerPlugin) bool { return x.Name == ref })
	switch {
	case i < 0:
		return excerpt.Errorf("usageLimitPolicyPluginRef is %q, which is none of the plugins", ref)
	case c.Plugins[i].Type != holdback:
		return nil // this type has equal limits for all priorities
	}
	var p ceilingParameters
	err := readParameters(&c.Plugins[i], &p)
	if err == nil {
		g.Ceilings, err = p.read()
	}
	if err != nil {
		return fmt.Errorf("parameters of %s: %w", ref, err)
	}
	return nil
}

// read checks the parameters and returns the ceilings.
func (p *ceilingParameters) read() (*router.Ceilings, error) {
	inRange := func(x float64) bool { return x >= 0 && x <= 1 }
	most := orElse(p.Most, 1)
	switch {
	case p.Domain == "explicit" && (len(p.Ceilings) == 0 || p.Least != nil || p.Most != nil || p.Shape != ""):
		return nil, errors.New("domain is explicit, which takes ceilings, and no shape, minCeiling or maxCeiling")
	case p.Domain == "explicit":
		return p.readGiven()
	case !slices.Contains([]string{"", "rank", "value"}, p.Domain):
		return nil, excerpt.Errorf("domain is %q, must be rank, value or explicit", p.Domain)
	case p.Shape != "" && p.Shape != "linear":
		return nil, excerpt.Errorf("shape is %q, must be linear", p.Shape)
	case p.Least == nil || !inRange(*p.Least):
		return nil, errors.New("minCeiling must be given, from 0 to 1")
	case !inRange(most) || most < *p.Least:
		return nil, fmt.Errorf("maxCeiling is %v, must be from minCeiling to 1", most)
	}
	return &router.Ceilings{Least: *p.Least, Most: most, ByValue: p.Domain == "value"}, nil
}

// readGiven returns explicit ceilings. Ceilings must not fall as priorities rise.
func (p *ceilingParameters) readGiven() (*router.Ceilings, error) {
	c := &router.Ceilings{}
	for _, priority := range slices.Backward(slices.Sorted(maps.Keys(p.Ceilings))) {
		x, n := p.Ceilings[priority], len(c.Of)
		switch {
		case !(x >= 0 && x <= 1):
			return nil, fmt.Errorf("the ceiling of %d is %v, must be from 0 to 1", priority, x)
		case n > 0 && x > c.Of[n-1].Share:
			return nil, fmt.Errorf("the ceiling of %d is below that of %d, must not fall as priorities rise", -c.Of[n-1].Priority, priority)
		}
		c.Of = append(c.Of, router.Ceiling{Priority: -priority, Share: x})
	}
	return c, nil
}
