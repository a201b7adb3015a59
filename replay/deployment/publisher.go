package deployment

import "strings"

// Publisher describes where a server of vLLM publishes its KV events.
type Publisher struct {
	Enabled         bool
	Endpoint, Topic string
}

// ReadPublisher returns the publisher that kv_events_config describes, in vLLM's printed form or as JSON. For "" and
// None, nothing is published.
func ReadPublisher(text string) Publisher {
	p := Publisher{Endpoint: "tcp://*:5557"}
	all := map[string]string{}
	if from := strings.IndexAny(text, "({"); from >= 0 && len(text) > from+1 {
		sign := "="
		if text[from] == '{' {
			sign = ":"
		}
		addPairs(all, text[from+1:len(text)-1], sign)
	}
	p.Enabled = strings.EqualFold(all["enable_kv_cache_events"], "true") && all["publisher"] != "null"
	if all["endpoint"] != "" {
		p.Endpoint = all["endpoint"]
	}
	p.Topic = all["topic"]
	return p
}
