package kvevents

// SourcesKey is the key of an engine's runtime data under which it lists the
// Sources of its KV events.
const SourcesKey = "kv_events"

// Source is where a rank of a worker publishes its KV events. Workers tell it
// when they register.
type Source struct {
	Events string `json:"events"`           // the PUB socket, tcp://host:port
	Replay string `json:"replay,omitempty"` // the ROUTER socket, if there is one
	Topic  string `json:"topic,omitempty"`
	Rank   int32  `json:"dp_rank"`
}
