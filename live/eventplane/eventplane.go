// Package eventplane publishes the KV cache of a worker on the event plane of the published Python package, for its KV
// router (docs/servers.md "The event plane of the Python package").
//
// There are two layouts of subjects, keys and messages, by release, and two transports, NATS and
// ZeroMQ. A Publisher serves all four at once, and a subscriber follows one of them:
//
//   - The default transport of frontends with etcd (DYN_EVENT_PLANE) is NATS in 1.2 and ZeroMQ in 1.6.
//   - The subject of NATS is namespace.NS.component.COMP.kv-events in 1.2, and
//     namespace.NS.component.COMP.endpoint.EP.kv-events in 1.6.
//   - The key of the publisher in v1/event_channels is NS/COMP/kv-events/ID in 1.2, and
//     namespace/NS/component/COMP/endpoint/EP/topic/kv-events/ID in 1.6.
//   - The id of the publisher is that of the worker in 1.2, and a separate number in 1.6, where v1/event_sources has
//     its worker, and for ranks above 0.
//   - A message has one event in 1.2, and a list of events with residency_domain in 1.6.
//
// A message is msgpack: publisher_id, sequence, published_at (ms), topic, and as bytes payload: worker_id,
// storage_tier, and the event with its number from 1 on. Over ZeroMQ its frames are topic, publisher and
// sequence (8 bytes each, big-endian), and version 1, length and message in one. A subscriber with a gap
// asks the endpoint worker_kv_indexer_query_dp0 of the worker's component, which ends with the rank. A block is listed once, and
// reported as removed with its last copy.
//
// Read eventplane.go, records.go (its records in discovery), encode.go (messages), query.go (requests of
// subscribers for missed events).
package eventplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/scheduler"
)

// Options are the places where KV events are published.
type Options struct {
	NATS bool   // on subjects of NATS
	ZMQ  bool   // on sockets of ZeroMQ, which discovery tells
	Host string // that the sockets listen at; default 127.0.0.1
	// Insecure allows a host outside loopback: sockets have no credentials.
	Insecure bool
	// Warn, if not nil, receives the losses.
	Warn func(string)
}

// Limits of a publisher.
const (
	maxQueue  = 100_000 // events that may wait to be published
	maxBlocks = 1_000   // of one event on the wire
	maxKept   = 10_000  // events for subscribers that missed some
	highWater = 100_000 // messages that may wait for a subscriber of ZeroMQ
)

// Publisher publishes the KV events of one rank of a worker. Its calls never wait.
type Publisher struct {
	options Options
	runtime *drt.Runtime
	name    drt.Name
	worker  uint64
	rank    int
	lanes   []*lane
	keys    []string // announced
	query   *drt.Serving
	done    chan struct{}

	mu      sync.Mutex
	queue   []scheduler.KVEvent
	closing bool
	lost    int       // events that came while the queue was full
	wake    bell.Bell // there is work

	state    sync.Mutex // what answers are made of
	holding  *kvevents.Holding
	kept     []change // published last, in order
	last     uint64   // id of the one published last
	failures int      // messages that NATS did not take
}

// lane is one layout: its readers see all events, numbered for this layout.
type lane struct {
	layout
	publisher uint64 // id
	subject   string // of NATS; "": none
	pub       *zmtp.Pub
	sequence  uint64
}

// Bind returns the function for engine.WorkerConfig.Publish: it makes a publisher for each rank of a worker.
func Bind(o Options) func(engine.PublisherContext) (engine.KVEventSink, func(), error) {
	return func(c engine.PublisherContext) (engine.KVEventSink, func(), error) {
		if c.Source.OnReady == nil {
			return nil, nil, nil // an engine that publishes on its own sockets only
		}
		p, err := openPlane(o, c.Runtime, c.Endpoint.Name(), c.Source.DPRank)
		if err != nil {
			return nil, nil, err
		}
		return p.enqueueAny, p.Close, nil
	}
}

// openPlane begins to tell the KV events of a rank of the worker that serves an endpoint.
func openPlane(o Options, rt *drt.Runtime, name drt.Name, rank int) (*Publisher, error) {
	ctx := context.Background()
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	p := &Publisher{
		options: o, runtime: rt, name: name, worker: rt.ID(), rank: rank, done: make(chan struct{}),
		wake: bell.New(), holding: kvevents.NewHolding(),
	}
	for _, l := range allLayouts() {
		one := &lane{layout: l, publisher: p.worker}
		if l.newer || rank > 0 { // the key of a publisher has its id
			one.publisher = 1 + rand.Uint64N(1<<53-1)
		}
		if o.NATS {
			one.subject = l.subjectOf(name)
		}
		if o.ZMQ {
			pub, err := zmtp.ListenPub(zmtp.Listener{Endpoint: "tcp://" + net.JoinHostPort(o.Host, "0"), Insecure: o.Insecure}, highWater)
			if err != nil {
				p.closeSockets()
				return nil, fmt.Errorf("the event plane: %w", err)
			}
			one.pub = pub
		}
		p.lanes = append(p.lanes, one)
	}
	err := p.serveQueries(ctx)
	if err == nil {
		err = p.announceAll(ctx)
	}
	go p.publishAll()
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("the event plane: %w", err)
	}
	return p, nil
}

// enqueueAny is Enqueue for a caller with events of type any.
func (p *Publisher) enqueueAny(events []any) {
	for _, one := range events {
		if e, ok := one.(scheduler.KVEvent); ok {
			p.Enqueue(e)
		}
	}
}

// Enqueue takes in an event without waiting for subscribers, and keeps nothing of its slices.
func (p *Publisher) Enqueue(e scheduler.KVEvent) {
	if e.Tier != scheduler.Device {
		return
	}
	e.Stored, e.Removed = slices.Clone(e.Stored), slices.Clone(e.Removed)
	p.mu.Lock()
	if p.closing || len(p.queue) >= maxQueue {
		p.lost++
	} else {
		p.queue = append(p.queue, e)
	}
	p.mu.Unlock()
	p.wake.Ring()
}

// publishAll publishes until the publisher is closed.
func (p *Publisher) publishAll() {
	defer close(p.done)
	warned := 0
	for {
		p.mu.Lock()
		events, closing, lost := p.queue, p.closing, p.lost
		p.queue = nil
		p.mu.Unlock()
		for i := range events {
			p.publishEvent(&events[i])
		}
		if lost > warned && !closing {
			warned = lost
			p.options.Warn(fmt.Sprintf("the event plane: %d events dropped: more than %d waited to be published", lost, maxQueue))
		}
		switch {
		case len(events) > 0:
		case closing:
			return
		default:
			<-p.wake
		}
	}
}

// publishEvent publishes what an event of the engine changes.
func (p *Publisher) publishEvent(e *scheduler.KVEvent) {
	p.state.Lock()
	removed := p.holding.Apply(e, nil)
	var changes []change
	run := kvevents.Run{Parent: e.Parent, HasParent: e.HasParent}
	for blocks := range slices.Chunk(e.Stored, maxBlocks) {
		run.Blocks = blocks
		changes = append(changes, change{Stored: run})
		run = kvevents.Run{Parent: blocks[len(blocks)-1].Seq, HasParent: true}
	}
	for hashes := range slices.Chunk(removed, maxBlocks) {
		changes = append(changes, change{Removed: hashes})
	}
	for i := range changes {
		p.last++
		changes[i].ID = p.last
	}
	p.keepChanges(changes)
	p.state.Unlock()
	for i := range changes {
		p.sendChange(&changes[i])
	}
}

// sendChange sends an event in every layout. A lost message is a gap in the event numbers, and a subscriber
// asks for the missed events.
func (p *Publisher) sendChange(c *change) {
	now := time.Now()
	for _, l := range p.lanes {
		envelope := appendEnvelope(nil, l.publisher, l.sequence, now, l.appendPayload(nil, p.worker, p.rank, c))
		if l.subject != "" {
			if err := p.runtime.Publish(l.subject, envelope); err != nil {
				p.noteFailure(err)
			}
		}
		if l.pub != nil {
			l.pub.Send(zmtp.Message{[]byte(topic), encodeNumber(l.publisher), encodeNumber(l.sequence), appendFrame(nil, envelope)})
		}
		l.sequence++
	}
}

// noteFailure warns of messages that are lost, of the first and of every thousandth.
func (p *Publisher) noteFailure(err error) {
	if p.failures++; p.failures%1000 == 1 {
		p.options.Warn(fmt.Sprintf("the event plane: messages lost, %d in all: %v", p.failures, err))
	}
}

// Close takes back what was announced, and ends. It may be called again.
func (p *Publisher) Close() {
	p.mu.Lock()
	again := p.closing
	p.closing = true
	p.mu.Unlock()
	p.wake.Ring()
	<-p.done
	if again {
		return
	}
	ctx, release := context.WithTimeout(context.Background(), 2*time.Second) // etcd may be gone
	defer release()
	var errs []error
	for _, key := range p.keys {
		errs = append(errs, p.runtime.Withdraw(ctx, key))
	}
	if p.query != nil {
		errs = append(errs, p.query.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		p.options.Warn(fmt.Sprintf("the event plane: %v", err))
	}
	p.closeSockets()
}

func (p *Publisher) closeSockets() {
	for _, l := range p.lanes {
		if l.pub != nil {
			l.pub.Close()
		}
	}
}
