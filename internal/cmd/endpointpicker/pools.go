package endpointpicker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/router/policy"
)

// Router is the router that a configuration file describes.
type Router struct {
	*policy.Picker
	// Split selects the prompts for prefill workers. Split is nil if all workers prefill and decode.
	Split *Split
}

// Split sends a prompt to a prefill worker if it has at least Prompt tokens, and at least Uncached tokens that are
// not cached on its decode worker. If Prompt and Uncached are 0, all prompts are sent to prefill workers.
type Split struct{ Uncached, Prompt int }

// Types of plugins for prefill and decode workers.
const (
	disaggHandler     = "disagg-profile-handler"
	pdHandler         = "pd-profile-handler"
	alwaysDecider     = "always-disagg-pd-decider"
	prefixDecider     = "prefix-based-pd-decider"
	multimodalDecider = "always-disagg-multimodal-decider"
	prefillFilter     = "prefill-filter"
	decodeFilter      = "decode-filter"
)

// profile is a scheduling profile.
type profile struct {
	Name    string      `yaml:"name"`
	Plugins []pluginRef `yaml:"plugins"`
}

// handlerParameters are the parameters of the profile handlers of all releases.
type handlerParameters struct {
	Order    string `yaml:"stageOrder"`
	Profiles struct {
		Decode   string `yaml:"decode"`
		Prefill  string `yaml:"prefill"`
		Encode   string `yaml:"encode"`
		Fallback string `yaml:"fallback"`
	} `yaml:"profiles"`
	Deciders struct {
		Prefill string `yaml:"prefill"`
		Encode  string `yaml:"encode"`
	} `yaml:"deciders"`

	// Parameters of earlier releases.
	Decode        string `yaml:"decodeProfile"`
	Prefill       string `yaml:"prefillProfile"`
	Encode        string `yaml:"encodeProfile"`
	Decider       string `yaml:"deciderPluginName"`
	OwnDecider    string `yaml:"prefillDeciderPluginName"`
	EncodeDecider string `yaml:"encodeDeciderPluginName"`
	Threshold     *int   `yaml:"threshold"`
	HashBlock     int    `yaml:"hashBlockSize"`    // used with a threshold
	PrefixType    string `yaml:"prefixPluginType"` // no effect
	PrefixName    string `yaml:"prefixPluginName"` // no effect
	Port          int    `yaml:"primaryPort"`      // port of data-parallel ranks; the simulation does not require it
	Producer      string `yaml:"prefixMatchInfoProducerName"`
}

// findHandler returns the plugin that runs the profiles of prefill and decode workers, or nil.
func (c *pickerConfig) findHandler() *pickerPlugin {
	if x := c.find(disaggHandler); x != nil {
		return x
	}
	return c.find(pdHandler)
}

// readPools adds the profiles of prefill and decode workers to p. readPools returns the rule that selects prompts for
// prefill workers.
func (c *pickerConfig) readPools(x *pickerPlugin, p *policy.Picker) (*Split, error) {
	h, err := c.readHandler(x)
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", x.Name, err)
	}
	if slices.Contains(c.Features, "flowControl") {
		return nil, errors.New("flowControl with prefill and decode profiles is not simulated")
	}
	decode := &policy.Picker{}
	for _, pool := range []struct {
		name, filter, other string
		picker              *policy.Picker
	}{{h.Profiles.Prefill, prefillFilter, decodeFilter, p}, {h.Profiles.Decode, decodeFilter, prefillFilter, decode}} {
		i := slices.IndexFunc(c.Profiles, func(r profile) bool { return r.Name == pool.name })
		if i < 0 {
			return nil, excerpt.Errorf("%s requires a schedulingProfile %q", x.Name, pool.name)
		}
		refs := c.Profiles[i].Plugins
		if !c.refersTo(refs, pool.filter) || c.refersTo(refs, pool.other) {
			return nil, excerpt.Errorf("schedulingProfile %q must have a %s and no %s: a choice among the workers of both pools is not simulated", pool.name, pool.filter, pool.other)
		}
		if err := cmp.Or(c.fillProfile(refs, pool.picker), c.countTokens(pool.picker)); err != nil {
			return nil, fmt.Errorf("schedulingProfile %s: %w", pool.name, err)
		}
	}
	p.Idle = append(p.Idle, decode.Idle...)
	for _, r := range c.Profiles {
		if r.Name != h.Profiles.Prefill && r.Name != h.Profiles.Decode && (r.Name != h.Profiles.Encode || h.Deciders.Encode == "") {
			return nil, excerpt.Errorf("schedulingProfile %q is neither that of prefill nor that of decode workers: it is not simulated", r.Name)
		}
	}
	split, err := c.readDecider(h, decode)
	p.Decode = &policy.Profile{Filters: decode.Filters, Scorers: decode.Scorers, Draw: decode.Draw, InFlight: decode.InFlight}
	return split, err
}

// refersTo reports whether a reference is to a plugin of the given type.
func (c *pickerConfig) refersTo(refs []pluginRef, kind string) bool {
	return slices.ContainsFunc(refs, func(r pluginRef) bool {
		x := c.named(r.Ref)
		return x != nil && x.Type == kind
	})
}

// named returns the plugin with a name, or nil.
func (c *pickerConfig) named(name string) *pickerPlugin {
	if i := slices.IndexFunc(c.Plugins, func(x pickerPlugin) bool { return x.Name == name }); i >= 0 {
		return &c.Plugins[i]
	}
	return nil
}

// readHandler reads the parameters of a handler. readHandler converts parameters of earlier releases to current
// parameters.
func (c *pickerConfig) readHandler(x *pickerPlugin) (*handlerParameters, error) {
	h := new(handlerParameters)
	if err := readParameters(x, h); err != nil {
		return nil, err
	}
	order := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(h.Order))
	switch {
	case order != "" && order != "decode" && order != "decodefirst":
		return nil, excerpt.Errorf("stageOrder is %q, and only decode-first is simulated", h.Order)
	case h.Profiles.Fallback != "":
		return nil, excerpt.Errorf("profiles.fallback is %q, which is not simulated", h.Profiles.Fallback)
	case h.Threshold != nil && *h.Threshold != 0:
		return nil, fmt.Errorf("threshold is %d, and must be 0: only %s is simulated, which counts tokens", *h.Threshold, prefixDecider)
	}
	h.Profiles.Decode = cmp.Or(h.Profiles.Decode, h.Decode, "decode")
	h.Profiles.Prefill = cmp.Or(h.Profiles.Prefill, h.Prefill, "prefill")
	h.Profiles.Encode = cmp.Or(h.Profiles.Encode, h.Encode, "encode")
	h.Deciders.Encode = cmp.Or(h.Deciders.Encode, h.EncodeDecider)
	h.Deciders.Prefill = cmp.Or(h.Deciders.Prefill, h.OwnDecider, h.Decider)
	if h.Deciders.Prefill == "" && h.Threshold == nil && x.Type == pdHandler {
		h.Deciders.Prefill = prefixDecider
	}
	if name := h.Deciders.Encode; name != "" {
		if y := c.named(name); y == nil || y.Type != multimodalDecider {
			return nil, excerpt.Errorf("deciders.encode is %q, must be a plugin of type %s", name, multimodalDecider)
		}
	}
	return h, nil
}

// deciderParameters are the parameters of the decider that counts uncached tokens.
type deciderParameters struct {
	Uncached int    `yaml:"nonCachedTokens"`
	Prompt   int    `yaml:"promptTokens"`
	Producer string `yaml:"prefixMatchInfoProducerName"`
}

// readDecider returns the rule that selects prompts for prefill workers. readDecider adds the prefix producer of the
// decider to decode, the picker of decode workers.
func (c *pickerConfig) readDecider(h *handlerParameters, decode *policy.Picker) (*Split, error) {
	name := h.Deciders.Prefill
	if name == "" && h.Threshold != nil {
		return new(Split), nil
	}
	x := c.named(name)
	switch {
	case name == "":
		return nil, errors.New("deciders.prefill is not given, so that no prompt goes to a prefill worker: must be the name of a decider")
	case x == nil:
		return nil, excerpt.Errorf("deciders.prefill is %q, which is none of the plugins", name)
	case x.Type == alwaysDecider:
		return new(Split), nil
	case x.Type != prefixDecider:
		return nil, excerpt.Errorf("deciders.prefill is of type %q, must be %s or %s", x.Type, alwaysDecider, prefixDecider)
	}
	var p deciderParameters
	if err := readParameters(x, &p); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", name, err)
	}
	if p.Uncached < 1 || p.Uncached > mostTokens || p.Prompt < 0 || p.Prompt > mostTokens {
		return nil, fmt.Errorf("parameters of %s: nonCachedTokens is %d, must be from 1 (0 sends no prompt to prefill workers), and promptTokens %d, must be from 0, both to %d", name, p.Uncached, p.Prompt, mostTokens)
	}
	kind, prefix, err := c.readProducer(cmp.Or(p.Producer, h.Producer))
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", name, err)
	}
	if y := c.find(string(policy.ApproximatePrefix)); kind == "" && y != nil { // in earlier releases this scorer was the producer
		s := policy.Scorer{}
		if s.Kind, s.Prefix, err = c.readApproximate(y); err != nil {
			return nil, fmt.Errorf("parameters of %s: %w", y.Name, err)
		}
		kind, prefix = s.Kind, s.Prefix
	}
	if kind == "" {
		kind, prefix = policy.ApproximatePrefix, policy.Prefix{Longest: prefixTokens} // the router creates this producer
	}
	found := &policy.InFlight{Match: kind, Prefix: prefix}
	if decode.InFlight != nil && *decode.InFlight != *found {
		return nil, excerpt.Errorf("%s and %s read different producers of prefixes: must be the same", name, inFlightProducer)
	}
	decode.InFlight = found
	return &Split{p.Uncached, p.Prompt}, nil
}

// mostTokens is the maximum of the thresholds of a decider.
const mostTokens = 1 << 30
