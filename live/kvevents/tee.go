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

// TeeOptions configure a tee.
type TeeOptions struct {
	// Events is the endpoint of the PUB socket, tcp://host:port. Port 0 is any port, host * is every address. Default
	// tcp://127.0.0.1:5557.
	Events string
	// Replay is the endpoint of the ROUTER socket for missed events. "": no socket, and no batches are kept.
	Replay string
	// Insecure allows sockets outside loopback, which other machines can reach without credentials.
	Insecure bool
	// Topic is the first frame of every message, default "".
	Topic string
	// Layout is the format of batches and answers; the zero value is OwnLayout. vLLM's layouts require EnqueueStep
	// and have no snapshots: an answer starts with the oldest kept batch.
	Layout Layout
	// HashBytes encodes hashes of blocks as 32 bytes instead of numbers, in vLLM's layouts.
	HashBytes bool
	// BlockTokens is the number of tokens of a block, which every event contains.
	BlockTokens int
	// BufferSteps is the maximum number of kept batches, default 10,000. The total size of the kept batches is
	// limited to 256 MiB. A request for older batches is answered with a snapshot.
	BufferSteps int
	// QueueEvents is the maximum number of events that wait to be published, default 100,000. Further events are
	// dropped, which leaves no gap in the sequence numbers.
	QueueEvents int
	// HighWater is the maximum number of messages that wait for a subscriber, default 100,000. The subscriber misses
	// further messages, and can request the missed batches.
	HighWater int
	// Fault, if not nil, returns whether subscribers miss the next batch, and its delay. The replay socket has all
	// batches.
	Fault func() (lost bool, late time.Duration)
	// Warn, if not nil, receives warnings about lost events.
	Warn func(string)
	// Now returns the time of batches, default time.Now.
	Now func() time.Time
}

// Next returns the options of publisher n of several. Ports are n higher, except port 0, and %d in the topic is
// replaced by n. For nil options, Next returns nil.
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

// splitPort returns host and port of an endpoint. Port 0 means any port or no port.
func splitPort(endpoint string) (host string, port int) {
	host, text, _ := net.SplitHostPort(strings.TrimPrefix(endpoint, "tcp://"))
	port, _ = strconv.Atoi(text)
	return host, port
}

// CheckPorts returns an error if two of the n publishers with the options Next(0) to Next(n-1) would share a port.
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

// Tee publishes the KV events of an engine. Callers of a Tee never wait. One goroutine of a Tee owns the sockets, the
// kept batches and the set of cached blocks. A snapshot is therefore always the state after the latest published
// batch.
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
	wake     bell.Bell // rings when there is work

	// Used by the publishing goroutine only.
	next   uint64        // sequence number of the next batch
	ring   *ring         // nil without a replay endpoint, like cached
	cached *cached       // cached blocks, only in OwnLayout
	late   chan struct{} // closed when the latest delayed message is sent; nil: no delayed message
}

// TeeStats are the counters of a tee.
type TeeStats struct {
	Published    uint64 // published batches, which is the next sequence number
	QueueDropped uint64 // events dropped because the queue was full
	Unknown      uint64 // dropped events with unknown tokens, in vLLM's layouts
	SendDropped  uint64 // copies of batches that subscribers missed
	Replays      uint64 // answers from the kept batches
	Snapshots    uint64 // answers with a snapshot
	Refused      uint64 // requests that could not be decoded
	Subscribers  int    // number of current subscribers
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

// Replay returns the endpoint of the ROUTER socket, or "" without this socket.
func (t *Tee) Replay() string {
	if t.router == nil {
		return ""
	}
	return t.router.Endpoint()
}

// Enqueue enqueues events in order, without waiting for subscribers. Enqueue copies the events. Enqueue returns the
// number of events dropped because the queue was full or the tee was closed. In vLLM's layouts Enqueue drops stored
// blocks, because their tokens are unknown.
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

// warnEvery is the number of losses between two warnings.
const warnEvery = 10_000

// countLost counts losses. countLost stores a warning for the first loss and for every warnEvery-th loss. The
// publishing goroutine sends the warning, so that its receiver cannot block the engine.
func (t *Tee) countLost(count *uint64, n int, format string, bound int) {
	before := *count
	*count += uint64(n)
	if before == 0 || before/warnEvery != *count/warnEvery {
		t.warnings = append(t.warnings, fmt.Sprintf(format, *count, bound))
	}
}

// Stats returns the counters of the tee.
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

// flushWarnings sends the stored warnings.
func (t *Tee) flushWarnings() {
	t.mu.Lock()
	said := t.warnings
	t.warnings = nil
	t.mu.Unlock()
	for _, text := range said {
		t.options.Warn(text)
	}
}

// nextEvent removes the first event from the queue.
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

// publishEvent sends an event as one batch for stored blocks and one batch for removed blocks.
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

// sendStep sends a batch and keeps it for later requests.
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

// send sends a message, with injected faults. send returns the number of subscribers that missed the message because
// their queue was full.
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
	time.AfterFunc(late, func() { // delayed messages keep the order of the sequence numbers
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
	if len(e.Moved) > 0 { // routers still count a block in host memory as cached
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

// closeTime limits how long Close waits for the queue to be published.
const closeTime = 2 * time.Second

// ErrUnpublished means that a tee was closed before all events were published.
var ErrUnpublished = errors.New("kvevents: closed with events unpublished")

// Close publishes the queued events, for at most 2 s, and closes the sockets. Close may be called several times.
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
