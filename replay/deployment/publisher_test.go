package deployment

import "testing"

// TestReadPublisher checks the reading of both forms: the one that vLLM prints and the one of its flag.
func TestReadPublisher(t *testing.T) {
	for text, want := range map[string]Publisher{
		"":     {false, "tcp://*:5557", ""},
		"None": {false, "tcp://*:5557", ""},
		"KVEventsConfig(enable_kv_cache_events=True, publisher='zmq', endpoint='tcp://router:5557', replay_endpoint=None, topic='kv@10.0.0.1:8000@m')": {true, "tcp://router:5557", "kv@10.0.0.1:8000@m"},
		"KVEventsConfig(enable_kv_cache_events=True, publisher='null')":                                                                                {false, "tcp://*:5557", ""},
		`{"enable_kv_cache_events": true, "endpoint": "tcp://*:5558", "topic": "kv@a@m"}`:                                                              {true, "tcp://*:5558", "kv@a@m"},
	} {
		if got := ReadPublisher(text); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}
