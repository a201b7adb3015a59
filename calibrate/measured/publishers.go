package measured

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/deployment"
)

// EventReader describes the KV events that a router reads, from the router's file.
type EventReader struct {
	BlockTokens int    // tokens per block in the router's index; 0: unknown
	Alike       bool   // servers must have this block length exactly, not a multiple or a divisor of it
	Topic       string // prefix of the topics that the router reads
	// Endpoint is the address where the router waits for servers. Port is the port of the servers to which it
	// connects. An unknown endpoint is "", and an unknown port is 0.
	Endpoint string
	Port     int
}

// CompareEvents sets Unread to the servers that do not publish the events that the router reads.
func (m *Run) CompareEvents(r EventReader) {
	m.Unread = nil
	var reasons []string
	names := map[string][]string{}
	for i := range m.Pods {
		p := &m.Pods[i]
		if p.asked == nil {
			continue
		}
		for _, why := range r.misses(p.asked) {
			if names[why] == nil {
				reasons = append(reasons, why)
			}
			names[why] = append(names[why], p.Name)
		}
	}
	for _, why := range reasons {
		m.Unread = append(m.Unread, strings.Join(names[why], ", ")+": "+why)
	}
}

// misses returns the reasons why the router cannot read the events of a server with these arguments.
func (r *EventReader) misses(asked map[string]string) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	p := deployment.ReadPublisher(asked["kv_events_config"])
	if !p.Enabled {
		add("kv_events_config publishes no KV events, and the router's scorer reads them")
		return all
	}
	if block, err := strconv.Atoi(asked["block_size"]); err == nil && block > 0 && r.BlockTokens > 0 && block != r.BlockTokens {
		switch {
		case r.Alike:
			add("block_size is %d, must be %d as in the router's file", block, r.BlockTokens)
		case block%r.BlockTokens > 0 && r.BlockTokens%block > 0:
			add("block_size is %d, must be a multiple or a divisor of %d, that of the router's file", block, r.BlockTokens)
		}
	}
	if !strings.HasPrefix(p.Topic, r.Topic) {
		add("topic of kv_events_config is %q, must begin with the router's topicFilter %q", firstWord(p.Topic), r.Topic)
	}
	switch bound := isBound(p.Endpoint); {
	case r.Endpoint != "" && bound && isBound(r.Endpoint):
		add("endpoint of kv_events_config is %s, must name the host of the router, which waits at %s, too", p.Endpoint, r.Endpoint)
	case r.Endpoint != "" && portOf(p.Endpoint) != portOf(r.Endpoint):
		add("endpoint of kv_events_config is %s, must have the port of the router's zmqEndpoint %s", p.Endpoint, r.Endpoint)
	case r.Port > 0 && (!bound || portOf(p.Endpoint) != strconv.Itoa(r.Port)):
		add("endpoint of kv_events_config is %s, must be tcp://*:%d, to which the router connects", p.Endpoint, r.Port)
	}
	return all
}

// firstWord returns a topic without the part that differs between servers.
func firstWord(topic string) string {
	if first, _, ok := strings.Cut(topic, "@"); ok {
		return first + "@…"
	}
	return topic
}

// isBound reports whether a socket with this endpoint waits for connections.
func isBound(endpoint string) bool {
	return strings.Contains(endpoint, "*") || slices.ContainsFunc([]string{"0.0.0.0", "[::]"}, func(any string) bool { return strings.Contains(endpoint, any) })
}

// portOf returns the text after the last colon.
func portOf(endpoint string) string { return endpoint[strings.LastIndex(endpoint, ":")+1:] }
