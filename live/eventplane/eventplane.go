// Package eventplane publishes the KV cache of a worker on the event plane of the published Python package, for its KV
// router (docs/servers.md "The event plane of the Python package").
//
// The two groups of releases differ in the layout of subjects, keys and messages. There are two transports, NATS and
// ZeroMQ. A Publisher serves both layouts on both transports, and a subscriber follows one of them:
//
//   - The default transport of frontends with etcd (DYN_EVENT_PLANE) is NATS in 1.2 and ZeroMQ in 1.6.
//   - The subject of NATS is namespace.NS.component.COMP.kv-events in 1.2, and
//     namespace.NS.component.COMP.endpoint.EP.kv-events in 1.6.
//   - The key of the publisher in v1/event_channels is NS/COMP/kv-events/ID in 1.2, and
//     namespace/NS/component/COMP/endpoint/EP/topic/kv-events/ID in 1.6.
//   - The id of the publisher is the worker's id in 1.2. In 1.6, and for ranks above 0, it is a separate number. In
//     1.6 v1/event_sources has its worker.
//   - A message has one event in 1.2, and a list of events with residency_domain in 1.6.
//
// A message is msgpack: publisher_id, sequence, published_at (ms), topic, and payload as bytes. The payload is
// worker_id, storage_tier, and the event with its number from 1. Over ZeroMQ the frames are topic, publisher and
// sequence (8 bytes each, big-endian), and a frame with version 1, length and message. A subscriber with a gap
// queries the endpoint worker_kv_indexer_query_dp0 of the worker's component, with the rank as its last part. A block
// is listed once. A block is reported as removed with its last copy.
//
// Read eventplane.go, records.go (records in discovery), encode.go (messages), query.go (queries for missed events).
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

// Options select the transports for KV events.
type Options struct {
	NATS bool   // publish on NATS subjects
	ZMQ  bool   // publish on ZeroMQ sockets, with addresses in discovery
	Host string // host of the sockets; default 127.0.0.1
	// Insecure allows a host outside loopback, although the sockets have no authentication.
	Insecure bool
	// Warn, if not nil, receives warnings about lost events.
	Warn func(string)
}

// Limits of a publisher.
const (
	maxQueue  = 100_000 // events that wait to be published
	maxBlocks = 1_000   // blocks in one event on the wire
	maxKept   = 10_000  // events kept for subscribers that missed some
	highWater = 100_000 // messages that wait for a ZeroMQ subscriber
)

// Publisher publishes the KV events of one rank of a worker. Methods of Publisher never block.
type Publisher struct {
	options Options
	runtime *drt.Runtime
	name    drt.Name
	worker  uint64
	rank    int
	lanes   []*lane
	keys    []string // keys in discovery
	query   *drt.Serving
	done    chan struct{}

	mu      sync.Mutex
	queue   []scheduler.KVEvent
	closing bool
	lost    int       // events dropped because the queue was full
	wake    bell.Bell // rings when there is work

	state    sync.Mutex // guards the data for answers
	holding  *kvevents.Holding
	kept     []change // latest published changes, in order
	last     uint64   // id of the latest change
	failures int      // messages that NATS did not accept
}

// lane is the publisher of one layout. lane has its own sequence of message numbers.
type lane struct {
	layout
	publisher uint64 // publisher id
	subject   string // NATS subject; "": not on NATS
	pub       *zmtp.Pub
	sequence  uint64
}

// Bind returns the function for engine.WorkerConfig.Publish. Bind opens a publisher for each rank of a worker.
func Bind(o Options) func(engine.PublisherContext) (engine.KVEventSink, func(), error) {
	return func(c engine.PublisherContext) (engine.KVEventSink, func(), error) {
		if c.Source.OnReady == nil {
			return nil, nil, nil // the engine publishes only on its own sockets
		}
		p, err := openPlane(o, c.Runtime, c.Endpoint.Name(), c.Source.DPRank)
		if err != nil {
			return nil, nil, err
		}
		return p.enqueueAny, p.Close, nil
	}
}

// openPlane starts to publish the KV events of a rank of the worker that serves an endpoint.
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
		if l.newer || rank > 0 { // the key of a publisher contains its id
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

// enqueueAny is Enqueue for events of type any.
func (p *Publisher) enqueueAny(events []any) {
	for _, one := range events {
		if e, ok := one.(scheduler.KVEvent); ok {
			p.Enqueue(e)
		}
	}
}

// Enqueue enqueues a copy of an event without waiting for subscribers. Enqueue ignores events of other memories than
// the device.
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

// publishEvent publishes the changes of an event of the engine.
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

// sendChange sends a change in every layout. If the message is lost, subscribers see a gap in the event numbers and
// query the missed events.
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

// noteFailure warns about the first and every thousandth lost message.
func (p *Publisher) noteFailure(err error) {
	if p.failures++; p.failures%1000 == 1 {
		p.options.Warn(fmt.Sprintf("the event plane: messages lost, %d in all: %v", p.failures, err))
	}
}

// Close publishes the queued events and removes the keys from discovery. Close may be called several times.
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
	ctx, release := context.WithTimeout(context.Background(), 2*time.Second) // etcd may be down
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
