package kvevents

// SourcesKey is the key of an engine's runtime data with the Sources of its KV events.
const SourcesKey = "kv_events"

// Source is the address at which a rank of a worker publishes its KV events. Workers register each Source in
// discovery.
type Source struct {
	Events string `json:"events"`           // the PUB socket, tcp://host:port
	Replay string `json:"replay,omitempty"` // the ROUTER socket; "": none
	Topic  string `json:"topic,omitempty"`
	Rank   int32  `json:"dp_rank"`
}
