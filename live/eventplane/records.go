package eventplane

import (
	"context"
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/drt"
)

// layout is a format of subjects, keys and messages: of release 1.2, or of release 1.6. The newer format also has the
// endpoint, and a list of events in each message.
type layout struct{ newer bool }

func allLayouts() []layout { return []layout{{newer: false}, {newer: true}} }

// subjectOf returns the NATS subject for the events of an endpoint's workers.
func (l layout) subjectOf(n drt.Name) string { return l.prefixOf(n) + "." + topic }

func (l layout) prefixOf(n drt.Name) string {
	prefix := "namespace." + n.Namespace + ".component." + n.Component
	if l.newer {
		prefix += ".endpoint." + n.Endpoint
	}
	return prefix
}

// keyOf returns the key of a publisher in a folder of discovery.
func (l layout) keyOf(folder string, n drt.Name, publisher uint64) string {
	path := n.Namespace + "/" + n.Component
	if l.newer {
		path = "namespace/" + n.Namespace + "/component/" + n.Component + "/endpoint/" + n.Endpoint + "/topic"
	}
	return "v1/" + folder + "/" + path + "/" + topic + "/" + strconv.FormatUint(publisher, 16)
}

// appendPayload appends the payload of one message.
func (l layout) appendPayload(dst []byte, worker uint64, rank int, c *change) []byte {
	if l.newer {
		dst = append(dst, 0x91) // a list of one element
	}
	return l.appendChange(dst, worker, rank, c)
}

// endpointName is an endpoint in records.
type endpointName struct {
	Namespace string `json:"namespace"`
	Component string `json:"component"`
	Name      string `json:"name"`
}

// scope is the origin of events: the endpoint of their worker.
type scope struct {
	Kind     string       `json:"kind"`
	Endpoint endpointName `json:"endpoint"`
}

// transport is the transport of events.
type transport struct {
	Kind   string `json:"kind"`
	Config struct {
		SubjectPrefix string `json:"subject_prefix,omitempty"`
		Endpoint      string `json:"endpoint,omitempty"`
	} `json:"config"`
}

// channelRecord is the address at which a publisher sends events.
type channelRecord struct {
	Type      string    `json:"type"`
	Namespace string    `json:"namespace,omitempty"`
	Component string    `json:"component,omitempty"`
	Scope     *scope    `json:"scope,omitempty"`
	Topic     string    `json:"topic"`
	ID        uint64    `json:"instance_id"` // id of the publisher
	Transport transport `json:"transport"`
}

// sourceRecord names the worker of a publisher's events, and the endpoint for queries of missed events.
type sourceRecord struct {
	Type      string         `json:"type"`
	Scope     scope          `json:"scope"`
	Topic     string         `json:"topic"`
	Publisher uint64         `json:"publisher_id"`
	Metadata  sourceMetadata `json:"metadata"`
}

type sourceMetadata struct {
	StateEndpoint endpointName `json:"kv_state_endpoint"`
	Worker        struct {
		ID   uint64 `json:"worker_id"`
		Rank int    `json:"dp_rank"`
	} `json:"worker"`
	Publisher uint64         `json:"publisher_id"`
	Recovery  recoveryRecord `json:"recovery_target"`
}

// recoveryRecord is the instance that answers queries for missed events.
type recoveryRecord struct {
	Component string        `json:"component"`
	Endpoint  string        `json:"endpoint"`
	Namespace string        `json:"namespace"`
	ID        uint64        `json:"instance_id"`
	Transport drt.Transport `json:"transport"`
}

// announceAll writes the records with the addresses of the events and of the queries.
func (p *Publisher) announceAll(ctx context.Context) error {
	for _, l := range p.lanes {
		if err := p.announceKey(ctx, l.keyOf("event_channels", p.name, l.publisher), p.channelOf(l)); err != nil {
			return err
		}
		if !l.newer {
			continue
		}
		if err := p.announceKey(ctx, l.keyOf("event_sources", p.name, l.publisher), p.sourceOf(l)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Publisher) announceKey(ctx context.Context, key string, record any) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	p.keys = append(p.keys, key)
	return p.runtime.Announce(ctx, key, value)
}

// channelOf returns the record of a lane. A lane on both transports lists its socket, because subscribers know the
// subject.
func (p *Publisher) channelOf(l *lane) channelRecord {
	r := channelRecord{Type: "EventChannel", Topic: topic, ID: l.publisher}
	if l.newer {
		s := p.scope()
		r.Scope = &s
	} else {
		r.Namespace, r.Component = p.name.Namespace, p.name.Component
	}
	if l.pub != nil {
		r.Transport.Kind, r.Transport.Config.Endpoint = "Zmq", l.pub.Endpoint()
	} else {
		r.Transport.Kind, r.Transport.Config.SubjectPrefix = "Nats", l.prefixOf(p.name)
	}
	return r
}

func (p *Publisher) sourceOf(l *lane) sourceRecord {
	q := p.queryName()
	r := sourceRecord{Type: "EventSource", Scope: p.scope(), Topic: topic, Publisher: l.publisher}
	r.Metadata = sourceMetadata{
		StateEndpoint: p.scope().Endpoint, Publisher: l.publisher,
		Recovery: recoveryRecord{q.Component, q.Endpoint, q.Namespace, p.worker, p.query.Transport()},
	}
	r.Metadata.Worker.ID, r.Metadata.Worker.Rank = p.worker, p.rank
	return r
}

func (p *Publisher) scope() scope {
	return scope{"endpoint", endpointName{p.name.Namespace, p.name.Component, p.name.Endpoint}}
}
