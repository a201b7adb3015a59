package options

import (
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// pickerFlag is the name of the flag for a file of an endpoint picker.
const pickerFlag = "endpoint-picker"

// pickerConfig is an EndpointPickerConfig, as far as it is read.
type pickerConfig struct {
	Kind     string   `yaml:"kind"`
	Features []string `yaml:"featureGates"`
	Plugins  []struct {
		Name string `yaml:"name"`
		Type string `yaml:"type"`
	} `yaml:"plugins"`
	Profiles []struct {
		Plugins []struct {
			Ref    string   `yaml:"pluginRef"`
			Weight *float64 `yaml:"weight"`
		} `yaml:"plugins"`
	} `yaml:"schedulingProfiles"`
	Saturation struct {
		Queue float64 `yaml:"queueDepthThreshold"`
		KV    float64 `yaml:"kvCacheUtilThreshold"`
	} `yaml:"saturationDetector"`
}

// fillPicker lets the router choose as the file of an endpoint picker says.
func (o *Options) fillPicker(spec *replay.Spec) error {
	if o.Cluster.picker == "" {
		return nil
	}
	switch name := o.FirstChanged(append(RouterFlags(), "router-config", "router")...); {
	case name != "":
		return cli.Usagef("--%s: without --%s, whose file says how requests are routed", name, pickerFlag)
	case o.IsLive() || o.IsCluster():
		return cli.Usagef("--%s: only on the logical clock: nobody reads the metrics of workers in real time", pickerFlag)
	case o.TwoPools():
		return cli.Usagef("--%s: only with workers that prefill and decode", pickerFlag)
	}
	p, err := readPicker(o.Cluster.picker)
	if err != nil {
		return fmt.Errorf("--%s: %w", pickerFlag, err)
	}
	spec.Picker, spec.Router, spec.RouterConfig = p, policy.PickerName, nil
	return nil
}

// readPicker reads an EndpointPickerConfig, which may stand alone or anywhere in the values
// of a chart.
func readPicker(path string) (*policy.Picker, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found, err := findPicker(string(text), 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var c pickerConfig
	if found == "" {
		return nil, fmt.Errorf("%s: no EndpointPickerConfig in it", path)
	}
	if err := yaml.Unmarshal([]byte(found), &c); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.SplitN(err.Error(), "\n", 2)[0])
	}
	p, err := c.picker()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// deepest is how many documents may stand in one another.
const deepest = 8

// findPicker returns the document of the picker in a text of YAML, "" where there is none.
func findPicker(text string, depth int) (string, error) {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		if depth > 0 { // a text that is no YAML
			return "", nil
		}
		return "", fmt.Errorf("%s", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	return searchPicker(v, depth)
}

// searchPicker returns the document of the picker in a value.
func searchPicker(v any, depth int) (string, error) {
	if depth > deepest {
		return "", nil
	}
	switch v := v.(type) {
	case map[string]any:
		if v["kind"] == "EndpointPickerConfig" {
			text, err := yaml.Marshal(v)
			return string(text), err
		}
		for _, inner := range v {
			if found, err := searchPicker(inner, depth+1); found != "" || err != nil {
				return found, err
			}
		}
	case string:
		if strings.Contains(v, "EndpointPickerConfig") {
			return findPicker(v, depth+1)
		}
	}
	return "", nil
}

// picker returns what the configuration asks for.
func (c *pickerConfig) picker() (*policy.Picker, error) {
	if len(c.Profiles) != 1 {
		return nil, fmt.Errorf("%d schedulingProfiles, want one", len(c.Profiles))
	}
	types := map[string]string{}
	for _, p := range c.Plugins {
		name := p.Name
		if name == "" {
			name = p.Type
		}
		types[name] = p.Type
	}
	p := &policy.Picker{}
	for _, ref := range c.Profiles[0].Plugins {
		kind, ok := types[ref.Ref]
		if !ok {
			return nil, fmt.Errorf("pluginRef %q is none of the plugins", ref.Ref)
		}
		weight := 1.0
		if ref.Weight != nil {
			weight = *ref.Weight
		}
		if !(weight >= 0 && weight <= 1e6) {
			return nil, fmt.Errorf("weight of %s is %v, want a number from 0 to 1000000", ref.Ref, weight)
		}
		switch kind {
		case "precise-prefix-cache-scorer", "prefix-cache-scorer":
			p.Prefix += weight
		case "kv-cache-utilization-scorer":
			p.KV += weight
		case "queue-scorer":
			p.Queue += weight
		case "max-score-picker":
		default:
			return nil, fmt.Errorf("plugin %s is of type %q, want one of precise-prefix-cache-scorer, prefix-cache-scorer, kv-cache-utilization-scorer, queue-scorer, max-score-picker", ref.Ref, kind)
		}
	}
	for _, f := range c.Features {
		if f == "flowControl" {
			p.Gate = &router.Gate{Queue: 5, KV: 0.8, Each: 1}
			if c.Saturation.Queue > 0 {
				p.Gate.Queue = c.Saturation.Queue
			}
			if c.Saturation.KV > 0 {
				p.Gate.KV = c.Saturation.KV
			}
		}
	}
	return p, nil
}
