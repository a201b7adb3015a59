package endpointpicker

import (
	"cmp"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/calibrate/measured"
)

// tokenParameters are the parameters of the router's block index.
type tokenParameters struct {
	BlockSize   int `yaml:"blockSize"`
	BlockTokens int `yaml:"blockSizeTokens"`
}

// eventParameters are the parameters of a plugin for KV events. The struct has only the parameters that must match
// the servers.
type eventParameters struct {
	Tokens  tokenParameters `yaml:"tokenProcessorConfig"`
	Indexer struct {
		Tokens tokenParameters `yaml:"tokenProcessorConfig"`
	} `yaml:"indexerConfig"`
	Events struct {
		Topic     *string `yaml:"topicFilter"`
		Endpoint  string  `yaml:"zmqEndpoint"`
		Discover  *bool   `yaml:"discoverPods"`
		Discovery struct {
			Port int `yaml:"socketPort"`
		} `yaml:"podDiscoveryConfig"`
	} `yaml:"kvEventsConfig"`
}

// Defaults of llm-d's router.
const (
	eventTopic = "kv@"
	eventPort  = 5557
)

// ReadEvents reads the KV event settings of a router's configuration file. ReadEvents uses the first
// precise-prefix-cache plugin.
func ReadEvents(path string) (r measured.EventReader, err error) {
	c, err := readPickerConfig(path)
	if err != nil {
		return r, err
	}
	var p eventParameters
	for i := range c.Plugins {
		if x := &c.Plugins[i]; x.Type == "precise-prefix-cache-scorer" || x.Type == "precise-prefix-cache-producer" {
			text, err := yaml.Marshal(x.Parameters)
			if err != nil {
				return r, err
			}
			if err := yaml.Unmarshal(text, &p); err != nil { // the parameters have an unknown structure
				return r, nil
			}
			break
		}
	}
	r.BlockTokens = cmp.Or(p.Tokens.BlockTokens, p.Tokens.BlockSize, p.Indexer.Tokens.BlockTokens, p.Indexer.Tokens.BlockSize)
	r.Alike, r.Topic = c.isFirstVersion(), eventTopic
	if e := &p.Events; e.Topic != nil {
		r.Topic = *e.Topic
	}
	switch discover := p.Events.Discover; {
	case discover != nil && *discover, discover == nil && !c.isFirstVersion() && p.Events.Endpoint == "":
		r.Port = cmp.Or(p.Events.Discovery.Port, eventPort)
	default:
		r.Endpoint = p.Events.Endpoint
	}
	return r, nil
}
