// Package endpointpicker reads the configuration of llm-d's router: an EndpointPickerConfig in a file, or in the
// values of a Helm chart.
//
// Read picker.go, then plugins.go (scorers and producers), filters.go (filters and flow control), and pools.go
// (prefill and decode workers).
package endpointpicker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/router/policy"
)

// SkipFlag is the name of the flag that omits plugins.
const SkipFlag = "endpoint-picker-skip"

// pickerConfig has the supported fields of an EndpointPickerConfig.
type pickerConfig struct {
	Version    string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Features   []string       `yaml:"featureGates"`
	Plugins    []pickerPlugin `yaml:"plugins"`
	Profiles   []profile      `yaml:"schedulingProfiles"`
	Saturation thresholds     `yaml:"saturationDetector"`
	Flow       struct {
		Limits string `yaml:"usageLimitPolicyPluginRef"`
	} `yaml:"flowControl"`
}

// thresholds are the thresholds of a saturation detector. 0 means the default.
type thresholds struct {
	Queue float64 `yaml:"queueDepthThreshold"`
	KV    float64 `yaml:"kvCacheUtilThreshold"`
	Stale string  `yaml:"metricsStalenessThreshold"` // no effect, because simulated metrics are never lost
	Ref   string  `yaml:"pluginRef"`
	// Headroom is the share by which a worker may exceed the thresholds before the filter removes it.
	Headroom float64 `yaml:"headroom"`
}

// pickerPlugin is a plugin of the configuration.
type pickerPlugin struct {
	Name       string         `yaml:"name"`
	Type       string         `yaml:"type"`
	Parameters map[string]any `yaml:"parameters"`
}

// pluginRef refers to a plugin in a profile.
type pluginRef struct {
	Ref    string `yaml:"pluginRef"`
	Weight any    `yaml:"weight"`
}

// Read reads the EndpointPickerConfig of a file. Read omits plugins with a name or type in skip.
func Read(path string, skip ...string) (r Router, err error) {
	c, err := readPickerConfig(path)
	if err != nil {
		return r, err
	}
	left, err := c.leaveOut(skip)
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	if r, err = c.readRouter(); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	r.Idle = append(r.Idle, left...)
	return r, nil
}

// leaveOut removes the plugins with a name or type in skip. leaveOut returns a note for each removed plugin.
func (c *pickerConfig) leaveOut(skip []string) (left []string, err error) {
	for _, name := range skip {
		is := func(x pickerPlugin) bool { return cmp.Or(x.Name, x.Type) == name || x.Type == name }
		if !slices.ContainsFunc(c.Plugins, is) {
			var names []string
			for _, x := range c.Plugins {
				names = append(names, cmp.Or(x.Name, x.Type))
			}
			return nil, excerpt.Errorf("--%s: %q is no plugin of it%s", SkipFlag, name, nearest.Ask(name, names))
		}
		for _, x := range c.Plugins {
			if !is(x) {
				continue
			}
			left = append(left, fmt.Sprintf("%s (left out by --%s)", cmp.Or(x.Name, x.Type), SkipFlag))
			for i := range c.Profiles {
				p := &c.Profiles[i]
				p.Plugins = slices.DeleteFunc(p.Plugins, func(r pluginRef) bool { return r.Ref == cmp.Or(x.Name, x.Type) })
			}
		}
		c.Plugins = slices.DeleteFunc(c.Plugins, is)
	}
	return left, nil
}

// readPickerConfig reads an EndpointPickerConfig. The file contains only this document, or values of a chart that
// contain it.
func readPickerConfig(path string) (*pickerConfig, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found, err := findPickers(string(text), "", 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var c pickerConfig
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("%s: no EndpointPickerConfig in it", path)
	case len(found) > 1:
		var names []string
		for _, f := range found {
			names = append(names, f.key)
		}
		return nil, excerpt.Errorf("%s: %d EndpointPickerConfigs in it (%s), must be one, or the one that pluginsConfigFile names", path, len(found), strings.Join(names, ", "))
	}
	if err := yaml.Unmarshal([]byte(found[0].text), &c); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.SplitN(err.Error(), "\n", 2)[0])
	}
	return &c, nil
}

// deepest is the maximum depth of nested documents.
const deepest = 8

// foundPicker is an EndpointPickerConfig document and its key in the file.
type foundPicker struct{ key, text string }

// findPickers returns the EndpointPickerConfig documents in a YAML text. key is the key of the text.
func findPickers(text, key string, depth int) ([]foundPicker, error) {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		if depth > 0 { // the text is not YAML
			return nil, nil
		}
		return nil, fmt.Errorf("%s", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	return searchPickers(v, key, depth)
}

// searchPickers returns the EndpointPickerConfig documents in a YAML value. If a chart has several files,
// pluginsConfigFile selects one.
func searchPickers(v any, key string, depth int) ([]foundPicker, error) {
	if depth > deepest {
		return nil, nil
	}
	switch v := v.(type) {
	case map[string]any:
		if v["kind"] == "EndpointPickerConfig" {
			text, err := yaml.Marshal(v)
			return []foundPicker{{key, string(text)}}, err
		}
		var all []foundPicker
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found, err := searchPickers(v[key], key, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		if i := slices.IndexFunc(all, func(f foundPicker) bool { return f.key == v["pluginsConfigFile"] }); i >= 0 {
			return all[i : i+1], nil
		}
		return all, nil
	case string:
		if strings.Contains(v, "EndpointPickerConfig") {
			return findPickers(v, key, depth+1)
		}
	}
	return nil, nil
}

// readRouter returns the router that the configuration describes.
func (c *pickerConfig) readRouter() (r Router, err error) {
	p := &policy.Picker{}
	for i := range c.Plugins {
		if err := c.checkPlugin(i, p); err != nil {
			return r, err
		}
	}
	r.Picker = p
	if x := c.findHandler(); x != nil {
		r.Split, err = c.readPools(x, p)
		return r, err
	}
	if len(c.Profiles) > 1 {
		return r, fmt.Errorf("%d schedulingProfiles, must be one, or two and a %s", len(c.Profiles), disaggHandler)
	}
	if err := c.fillProfile(c.references(), p); err != nil {
		return r, err
	}
	if slices.Contains(c.Features, "flowControl") {
		if p.Gate, err = c.readGate(); err != nil {
			return r, err
		}
	}
	return r, c.countTokens(p)
}

// fillProfile adds the plugins of a profile to a picker.
func (c *pickerConfig) fillProfile(refs []pluginRef, p *policy.Picker) error {
	for _, ref := range refs {
		if err := c.addPlugin(ref, p); err != nil {
			return err
		}
	}
	if len(p.Scorers) == 0 && len(p.Filters) == 0 && p.Draw == "" {
		return errors.New("no filter, no scorer and no picker in the profile, or among the plugins where there is none")
	}
	p.Draw = cmp.Or(p.Draw, policy.MaxScore)
	return nil
}

// checkPlugin sets the default name of a plugin. checkPlugin returns an error for a plugin that is unknown or not
// simulated, and adds a note for a plugin without effect.
func (c *pickerConfig) checkPlugin(i int, p *policy.Picker) error {
	x := &c.Plugins[i]
	if x.Type == "" {
		return excerpt.Errorf("plugin %d (%q) has no type", i+1, x.Name)
	}
	x.Name = cmp.Or(x.Name, x.Type)
	if slices.ContainsFunc(c.Plugins[:i], func(y pickerPlugin) bool { return y.Name == x.Name }) {
		return excerpt.Errorf("two plugins are named %q", x.Name)
	}
	switch why, known := pluginTypes()[x.Type]; {
	case !known:
		return excerpt.Errorf("plugin %s is of type %q, which is unknown%s", x.Name, x.Type, nearest.Ask(x.Type, slices.Sorted(maps.Keys(pluginTypes()))))
	case why == notSimulated:
		return excerpt.Errorf("plugin %s is of type %q, which is not simulated: --%s %s leaves it out", x.Name, x.Type, SkipFlag, x.Name)
	case why == allDoBoth && c.findHandler() != nil: // with a handler the plugin is simulated
	case why != "":
		p.Idle = append(p.Idle, fmt.Sprintf("%s (%s)", x.Type, why))
	}
	return nil
}

// references returns the plugins of the only profile, or all plugins if there is no profile.
func (c *pickerConfig) references() []pluginRef {
	if len(c.Profiles) == 1 {
		return c.Profiles[0].Plugins
	}
	var all []pluginRef
	for _, x := range c.Plugins {
		all = append(all, pluginRef{Ref: x.Name})
	}
	return all
}

// addPlugin adds a plugin of a profile to a picker.
func (c *pickerConfig) addPlugin(ref pluginRef, p *policy.Picker) error {
	i := slices.IndexFunc(c.Plugins, func(x pickerPlugin) bool { return x.Name == ref.Ref })
	if i < 0 {
		return excerpt.Errorf("pluginRef %q is none of the plugins", ref.Ref)
	}
	x := &c.Plugins[i]
	weight, err := ref.weigh()
	if err != nil {
		return err
	}
	switch kind := policy.ScorerKind(x.Type); {
	case slices.Contains(policy.ScorerKinds(), kind):
		s, err := c.readScorer(x)
		if err != nil {
			return fmt.Errorf("parameters of %s: %w", x.Name, err)
		}
		if s.Speculative > 0 && c.lacksPreparation() {
			s.Speculative = 0
			p.Idle = append(p.Idle, fmt.Sprintf("speculativeIndexing of %s (requires the feature gate %s)", x.Name, preparation))
		}
		s.Weight = weight
		p.Scorers = append(p.Scorers, s)
	case slices.Contains(policy.FilterKinds(), policy.FilterKind(x.Type)):
		f, err := c.readFilter(x)
		if err != nil {
			return fmt.Errorf("parameters of %s: %w", x.Name, err)
		}
		p.Filters = append(p.Filters, f)
	case slices.Contains(policy.Draws(), policy.Draw(x.Type)):
		if p.Draw != "" {
			return fmt.Errorf("plugin %s is a second picker, must be one", x.Name)
		}
		p.Draw = policy.Draw(x.Type)
	}
	return nil
}

// preparation is a feature gate of the releases with the first apiVersion. Without this gate, the router does not
// call plugins before it schedules a request, and does not record sent prompts.
const preparation = "prepareDataPlugins"

// lacksPreparation reports whether the router does not call plugins before it schedules a request.
func (c *pickerConfig) lacksPreparation() bool {
	return c.isFirstVersion() && !slices.Contains(c.Features, preparation)
}

// isFirstVersion reports whether the configuration has the apiVersion that releases used before llm-d.
func (c *pickerConfig) isFirstVersion() bool {
	return strings.HasPrefix(c.Version, "inference.networking")
}

// weigh returns the weight of a plugin in its profile. The default is 1.
func (r *pluginRef) weigh() (float64, error) {
	if r.Weight == nil {
		return 1, nil
	}
	weight, err := strconv.ParseFloat(fmt.Sprint(r.Weight), 64)
	if err != nil || !(weight >= 0 && weight <= 1e6) {
		return 0, fmt.Errorf("weight of %s is %v, must be a number from 0 to 1000000", r.Ref, r.Weight)
	}
	return weight, nil
}
