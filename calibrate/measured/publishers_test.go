package measured

import (
	"strings"
	"testing"
)

// TestCompareEvents checks that a server is named if it publishes no events, or other events than the router reads.
func TestCompareEvents(t *testing.T) {
	config := func(endpoint, topic string) string {
		return "KVEventsConfig(enable_kv_cache_events=True, publisher='zmq', endpoint='" + endpoint + "', topic='" + topic + "')"
	}
	central := EventReader{BlockTokens: 64, Alike: true, Topic: "kv@", Endpoint: "tcp://*:5557"}
	each := EventReader{BlockTokens: 64, Topic: "kv@", Port: 5557}
	for _, c := range []struct {
		reader             EventReader
		config, block, bad string // bad: a word of the reason; "": no reason
	}{
		{central, config("tcp://router:5557", "kv@10.0.0.1:8000@m"), "64", ""},
		{central, "", "64", "publishes no"},
		{central, "KVEventsConfig(enable_kv_cache_events=False)", "64", "publishes no"},
		{central, config("tcp://router:5557", "kv@10.0.0.1:8000@m"), "16", "block_size is 16"},
		{central, config("tcp://router:5557", "events"), "64", "topicFilter"},
		{central, config("tcp://*:5557", "kv@a@m"), "64", "host of the router"},
		{central, config("tcp://router:5558", "kv@a@m"), "64", "the port"},
		{each, config("tcp://*:5557", "kv@a@m"), "64", ""},
		{each, config("tcp://*:5557", "kv@a@m"), "16", ""},
		{each, config("tcp://*:5557", "kv@a@m"), "48", "multiple or a divisor"},
		{each, config("tcp://router:5557", "kv@a@m"), "64", "must be tcp://*:5557"},
		{each, config("tcp://*:5558", "kv@a@m"), "64", "must be tcp://*:5557"},
	} {
		asked := map[string]string{"kv_events_config": c.config, "block_size": c.block}
		m := &Run{Pods: []Pod{{Name: "a.log", asked: asked}, {Name: "b.log", asked: asked}, {Name: "c.log"}}}
		m.CompareEvents(c.reader)
		switch {
		case c.bad == "" && len(m.Unread) > 0:
			t.Errorf("%+v: %q, want nothing", c, m.Unread)
		case c.bad != "" && (len(m.Unread) != 1 || !strings.HasPrefix(m.Unread[0], "a.log, b.log: ") || !strings.Contains(m.Unread[0], c.bad)):
			t.Errorf("%+v: %q", c, m.Unread)
		}
	}
}
