package kvevents

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/scheduler"
)

// TeeOptions are where a tee publishes and how much it keeps.
type TeeOptions struct {
	// Events is the endpoint of the PUB socket, tcp://host:port, port 0 for any;
	// * is every address. Default tcp://127.0.0.1:5557.
	Events string
	// Replay is the endpoint of the ROUTER socket for requests of missed events; "" opens none and keeps no batches.
	Replay string
	// Insecure allows sockets outside loopback, which other machines reach without credentials.
	Insecure bool
	// Topic is the first frame of every message, default "".
	Topic string
	// Layout is the layout of batches and answers; the zero value is this project's own. vLLM's layouts require
	// EnqueueStep, and have no snapshots: a request for batches that are no longer kept is answered with the
	// kept ones.
	Layout Layout
	// HashBytes tells hashes of blocks as 32 bytes instead of numbers, in vLLM's layouts.
	HashBytes bool
	// BlockTokens is the number of tokens of a block, told in every event.
	BlockTokens int
	// BufferSteps is the number of batches kept for subscribers, default 10,000; fewer where they come to more
	// than 256 MiB. A request for older ones is answered with a snapshot.
	BufferSteps int
	// QueueEvents is the number of events that may wait to be published, default
	// 100,000. More are lost, without a trace in the sequence numbers.
	QueueEvents int
	// HighWater is the number of messages that may wait for a subscriber, default 100,000. It misses the
	// messages after that, and can ask for them.
	HighWater int
	// Fault, if not nil, returns whether subscribers miss the next batch, and how late they get it. The replay socket has it.
	Fault func() (lost bool, late time.Duration)
	// Warn, if not nil, receives the losses.
	Warn func(string)
	// Now stamps batches, default time.Now.
	Now func() time.Time
}

// Next returns the options of publisher n of several: ports are n higher, except ports that are 0, and %d in the topic
// is n. The options of none are nil.
func (o *TeeOptions) Next(n int) *TeeOptions {
	if o == nil {
		return nil
	}
	one := *o
	one.Events, one.Replay = portAfter(o.Events, n), portAfter(o.Replay, n)
	one.Topic = strings.ReplaceAll(o.Topic, "%d", strconv.Itoa(n))
	return &one
}

// portAfter returns an endpoint with a port that is n higher.
func portAfter(endpoint string, n int) string {
	host, port := splitPort(endpoint)
	if port == 0 {
		return endpoint
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port+n))
}

// splitPort returns host and port of an endpoint; port 0 is any, or none.
func splitPort(endpoint string) (host string, port int) {
	host, text, _ := net.SplitHostPort(strings.TrimPrefix(endpoint, "tcp://"))
	port, _ = strconv.Atoi(text)
	return host, port
}

// CheckPorts returns an error if two of n publishers with the options Next(0) to Next(n-1) would share a port.
func (o *TeeOptions) CheckPorts(n int) error {
	if o == nil {
		return nil
	}
	_, events := splitPort(o.Events)
	_, replay := splitPort(o.Replay)
	if d := replay - events; events != 0 && replay != 0 && d > -n && d < n {
		return fmt.Errorf("ports %d and %d are of %d sockets each, must be at least %d apart", events, replay, n, n)
	}
	return nil
}

func (o *TeeOptions) setDefaults() error {
	if o.Events == "" {
		o.Events = "tcp://127.0.0.1:5557"
	}
	for _, x := range []struct {
		name  string
		value *int
		use   int
	}{{"BufferSteps", &o.BufferSteps, 10_000}, {"QueueEvents", &o.QueueEvents, 100_000}, {"HighWater", &o.HighWater, 100_000}} {
		if *x.value < 0 {
			return fmt.Errorf("%s is %d, must be at least 1, or 0 for %d", x.name, *x.value, x.use)
		}
		if *x.value == 0 {
			*x.value = x.use
		}
	}
	if o.BlockTokens <= 0 {
		return fmt.Errorf("BlockTokens is %d, must be at least 1", o.BlockTokens)
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// Tee publishes the KV events of an engine. Its callers never wait. One goroutine owns the sockets, the batches
// kept and the set of cached blocks, so that a snapshot is always the state after the batch published last.
type Tee struct {
	options TeeOptions
	pub     *zmtp.Pub
	router  *zmtp.Router // nil without a replay endpoint
	done    chan struct{}
	quit    chan struct{}

	mu       sync.Mutex
	queue    []queued
	closing  bool
	stats    TeeStats
	warnings []string
	wake     bell.Bell // there is work

	// Of the goroutine alone.
	next   uint64        // sequence number of the batch published next
	ring   *ring         // nil without a replay endpoint, as is cached
	cached *cached       // in our own layout
	late   chan struct{} // closed when the latest message that a fault delays is sent; nil: none was
}

// TeeStats counts what a tee has done.
type TeeStats struct {
	Published    uint64 // batches, which is the next sequence number
	QueueDropped uint64 // events that came while the queue was full
	Unknown      uint64 // events with blocks of unknown tokens, in vLLM's layouts
	SendDropped  uint64 // copies of batches that subscribers missed
	Replays      uint64 // answers out of the batches kept
	Snapshots    uint64 // answers with a snapshot
	Refused      uint64 // requests that could not be read
	Subscribers  int    // now
}

// NewTee opens the sockets and starts to publish.
func NewTee(o TeeOptions) (*Tee, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	t := &Tee{options: o, done: make(chan struct{}), quit: make(chan struct{}), wake: bell.New()}
	var err error
	if t.pub, err = zmtp.ListenPub(zmtp.Listener{Endpoint: o.Events, Insecure: o.Insecure}, o.HighWater); err != nil {
		return nil, err
	}
	var requests <-chan zmtp.Request
	if o.Replay != "" {
		if t.router, err = zmtp.ListenRouter(zmtp.Listener{Endpoint: o.Replay, Insecure: o.Insecure}, max(o.HighWater, o.BufferSteps)); err != nil {
			t.pub.Close()
			return nil, err
		}
		requests = t.router.Requests()
		t.ring = &ring{most: o.BufferSteps}
		if o.Layout == OwnLayout {
			t.cached = newCached()
		}
	}
	go t.publishAll(requests)
	return t, nil
}

// Events returns the endpoint of the PUB socket.
func (t *Tee) Events() string { return t.pub.Endpoint() }

// Replay returns the endpoint of the ROUTER socket, "" if there is none.
func (t *Tee) Replay() string {
	if t.router == nil {
		return ""
	}
	return t.router.Endpoint()
}

// Enqueue takes in events, in order, without waiting for subscribers; it keeps nothing of the slices it is given. It
// returns how many were dropped because too many wait, or the tee is closed. In vLLM's layouts it drops stored
// blocks, since it does not know their tokens.
func (t *Tee) Enqueue(events []scheduler.KVEvent) (dropped int) {
	if len(events) == 0 {
		return 0
	}
	if t.options.Layout != OwnLayout {
		return t.EnqueueStep(events, func(scheduler.KVBlock) (Text, bool) { return Text{}, false })
	}
	t.mu.Lock()
	for i := range events {
		if t.closing || len(t.queue) >= t.options.QueueEvents {
			t.countLost(&t.stats.QueueDropped, 1, "events dropped, %d in all: more than %d wait to be published", t.options.QueueEvents)
			dropped++
			continue
		}
		e := events[i]
		e.Stored, e.Removed, e.Moved = slices.Clone(e.Stored), slices.Clone(e.Removed), slices.Clone(e.Moved)
		t.queue = append(t.queue, queued{event: e})
	}
	t.mu.Unlock()
	t.wake.Ring()
	return dropped
}

// warnEvery is how many losses make another warning.
const warnEvery = 10_000

// countLost counts losses, and leaves a warning of the first and of every warnEvery-th to the goroutine, since
// the receiver of a warning must not hold up the engine.
func (t *Tee) countLost(count *uint64, n int, format string, bound int) {
	before := *count
	*count += uint64(n)
	if before == 0 || before/warnEvery != *count/warnEvery {
		t.warnings = append(t.warnings, fmt.Sprintf(format, *count, bound))
	}
}

// Stats returns what the tee has done so far.
func (t *Tee) Stats() TeeStats {
	t.mu.Lock()
	s := t.stats
	t.mu.Unlock()
	s.Subscribers = t.pub.Subscribers()
	return s
}

// publishAll publishes and answers until the tee is closed.
func (t *Tee) publishAll(requests <-chan zmtp.Request) {
	defer close(t.done)
	for {
		select {
		case q := <-requests:
			t.answerRequest(q)
		case <-t.quit:
			return
		default:
		}
		t.flushWarnings()
		q, ok, closing := t.nextEvent()
		switch {
		case ok && t.options.Layout != OwnLayout:
			t.publishStep(q)
		case ok:
			t.publishEvent(q.event)
		case closing:
			return
		default:
			select {
			case q := <-requests:
				t.answerRequest(q)
			case <-t.wake:
			case <-t.quit:
				return
			}
		}
	}
}

// flushWarnings hands on what was left to be said.
func (t *Tee) flushWarnings() {
	t.mu.Lock()
	said := t.warnings
	t.warnings = nil
	t.mu.Unlock()
	for _, text := range said {
		t.options.Warn(text)
	}
}

// nextEvent takes the first event off the queue.
func (t *Tee) nextEvent() (q queued, ok, closing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		return q, false, t.closing
	}
	q, t.queue[0] = t.queue[0], queued{}
	if t.queue = t.queue[1:]; len(t.queue) == 0 {
		t.queue = nil
	}
	return q, true, false
}

// publishEvent sends an event, one batch for stored blocks and one for removed blocks.
func (t *Tee) publishEvent(e scheduler.KVEvent) {
	if len(e.Stored) > 0 && len(e.Removed) > 0 {
		first := e
		first.Removed, e.Stored = nil, nil
		t.publishEvent(first)
	}
	b := t.newBatch(e.Rank, t.newEvent(&e))
	if t.ring != nil {
		t.cached.applyEvent(&e)
	}
	t.sendStep(b.Append(nil))
}

// sendStep sends a batch, and keeps it.
func (t *Tee) sendStep(payload []byte) {
	if t.ring != nil {
		t.ring.addStep(step{t.next, payload})
	}
	missed := t.send(zmtp.Message{[]byte(t.options.Topic), encodeSequence(t.next), payload})
	t.next++
	t.mu.Lock()
	t.stats.Published++
	if missed > 0 {
		t.countLost(&t.stats.SendDropped, missed, "messages missed by subscribers, %d in all: more than %d wait for them", t.options.HighWater)
	}
	t.mu.Unlock()
}

// send sends a message with the faults that are injected, and returns how many subscribers missed it because too many wait.
func (t *Tee) send(m zmtp.Message) (missed int) {
	if t.options.Fault == nil {
		return t.pub.Send(m)
	}
	lost, late := t.options.Fault()
	if lost {
		return 0
	}
	if late == 0 && t.late == nil {
		return t.pub.Send(m)
	}
	before, sent := t.late, make(chan struct{})
	t.late = sent
	time.AfterFunc(late, func() { // in the order of the sequence numbers
		defer close(sent)
		if before != nil {
			<-before
		}
		t.pub.Send(m)
	})
	return 0
}

// newEvent returns the wire form of an event.
func (t *Tee) newEvent(e *scheduler.KVEvent) Event {
	if len(e.Removed) > 0 {
		return Event{Kind: Removed, Blocks: e.Removed, Medium: mediumName(e.Tier)}
	}
	if len(e.Moved) > 0 { // to routers a block in host memory is cached
		return Event{Kind: Ignored, Blocks: e.Moved, Medium: cmp.Or(mediumName(e.Tier), "GPU")}
	}
	out := Event{
		Kind: Stored, Parent: e.Parent, HasParent: e.HasParent,
		BlockTokens: t.options.BlockTokens, Medium: mediumName(e.Tier),
		Blocks: make([]uint64, len(e.Stored)), TokensHashes: make([]uint64, len(e.Stored)),
	}
	for i, b := range e.Stored {
		out.Blocks[i], out.TokensHashes[i] = b.Seq, b.Tokens
	}
	return out
}

func (t *Tee) newBatch(rank int32, events ...Event) Batch {
	now := float64(t.options.Now().UnixNano()) / 1e9
	return Batch{Time: now, Events: events, Rank: rank, HasRank: true}
}

// encodeSequence returns the wire form of a sequence number.
func encodeSequence(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// closeTime bounds how long Close waits for what is queued to be published.
const closeTime = 2 * time.Second

// ErrUnpublished means that a tee was closed before everything was published.
var ErrUnpublished = errors.New("kvevents: closed with events unpublished")

// Close publishes what is queued, for at most 2 s, and closes the sockets. It
// may be called again.
func (t *Tee) Close() error {
	t.mu.Lock()
	again := t.closing
	t.closing = true
	t.mu.Unlock()
	if again {
		<-t.done
		return nil
	}
	t.wake.Ring()
	var err error
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-t.done:
	case <-late.C:
		close(t.quit)
		<-t.done
		err = ErrUnpublished
	}
	t.pub.Close()
	if t.router != nil {
		t.router.Close()
	}
	return err
}
