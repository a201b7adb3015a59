package serve

import (
	"testing"

	"github.com/replay-llm/replay/live/kvevents"
)

// Servers of a fleet publish at consecutive ports with separate topics. vLLM's default port is the first.
func TestKVSocketsOfFleet(t *testing.T) {
	o, err := parseKVConfig(`{"enable_kv_cache_events": true, "replay_endpoint": "tcp://127.0.0.1:0", "topic": "kv@pod-%d@m"}`, "0.19.0", "127.0.0.1", false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []kvevents.TeeOptions{
		{Events: "tcp://127.0.0.1:5557", Topic: "kv@pod-0@m"}, {Events: "tcp://127.0.0.1:5558", Topic: "kv@pod-1@m"},
	} {
		got := o.Next(i)
		if got.Events != want.Events || got.Topic != want.Topic || got.Replay != "tcp://127.0.0.1:0" || got.Layout != kvevents.VLLM019 || got.HashBytes || got.BufferSteps != 10_000 {
			t.Errorf("server %d: %+v, want %s and %s", i, got, want.Events, want.Topic)
		}
	}
	for _, config := range []string{"", "{}", `{"enable_kv_cache_events": true, "publisher": "null"}`, `{"publisher": "zmq"}`} {
		if o, err := parseKVConfig(config, "0.33.0", "127.0.0.1", false); o != nil || err != nil {
			t.Errorf("%q: %+v %v, want nothing published", config, o, err)
		}
	}
	if err := (&kvevents.TeeOptions{Events: "tcp://*:5557", Replay: "tcp://*:5560"}).CheckPorts(3); err != nil {
		t.Error(err)
	}
}
