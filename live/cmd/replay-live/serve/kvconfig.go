package serve

import (
	"fmt"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/live/vllm"
)

// intHashes is vLLM's environment variable that selects numbers (1) or bytes (0) for hashes of blocks.
const intHashes = "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"

// hashBytes reports whether hashes are bytes in vLLM's layouts.
func hashBytes() bool { return os.Getenv(intHashes) == "0" }

// parseKVConfig parses --kv-events-config for a vLLM release. parseKVConfig returns nil if KV events are not enabled.
// The host * means the host of the servers.
func parseKVConfig(text, release, host string, insecure bool) (*kvevents.TeeOptions, error) {
	if text == "" {
		return nil, nil
	}
	c := vllm.KVConfig{Endpoint: "tcp://*:5557", Buffer: 10_000, HighWater: 100_000, Queue: 100_000}
	if err := parseKeys(text, &c); err != nil {
		return nil, cli.Usagef("--kv-events-config: %v", err)
	}
	o := &kvevents.TeeOptions{Events: c.Endpoint, Topic: c.Topic, BufferSteps: c.Buffer, HighWater: c.HighWater, QueueEvents: c.Queue, Insecure: insecure}
	if c.Replay != nil {
		o.Replay = *c.Replay
	}
	switch {
	case c.Publisher != nil && *c.Publisher != "zmq" && *c.Publisher != "null":
		return nil, cli.Usagef("--kv-events-config: publisher is %q, must be zmq or null", *c.Publisher)
	case !c.Enable || c.Publisher != nil && *c.Publisher == "null":
		return nil, nil
	}
	for _, x := range []struct {
		name     string
		endpoint *string
	}{{"endpoint", &o.Events}, {"replay_endpoint", &o.Replay}} {
		if port, all := strings.CutPrefix(*x.endpoint, "tcp://*:"); all {
			*x.endpoint = "tcp://" + net.JoinHostPort(host, port)
		}
		at := zmtp.Listener{Endpoint: *x.endpoint, Insecure: insecure}
		if err := at.Check(); *x.endpoint != "" && err != nil {
			return nil, cli.Usagef("--kv-events-config: %s: %v", x.name, err)
		}
	}
	for _, x := range []struct {
		name  string
		value int
	}{{"buffer_steps", c.Buffer}, {"hwm", c.HighWater}, {"max_queue_size", c.Queue}} {
		if x.value < 1 {
			return nil, cli.Usagef("--kv-events-config: %s is %d, must be at least 1", x.name, x.value)
		}
	}
	var err error
	if o.Layout, err = kvevents.LayoutOf(release); err != nil {
		return nil, err
	}
	o.HashBytes = hashBytes()
	return o, nil
}

// parseKeys parses the JSON with vLLM's keys.
func parseKeys(text string, c *vllm.KVConfig) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		return fmt.Errorf("must be a JSON object: %w", err)
	}
	var known []string
	for f := range reflect.TypeFor[vllm.KVConfig]().Fields() {
		known = append(known, f.Tag.Get("json"))
		delete(keys, f.Tag.Get("json"))
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		return excerpt.Errorf("no key %q%s", key, nearest.Ask(key, known))
	}
	return json.Unmarshal([]byte(text), c)
}
