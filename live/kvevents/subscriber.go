package kvevents

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/sim/blockhash"
)

// Sink receives the changes from a subscriber, from one goroutine.
type Sink interface {
	// Take takes in changes, in order.
	Take(changes []Change)
	// Replace takes in changes instead of all earlier changes.
	Replace(changes []Change)
}

// Origin is how a batch came.
type Origin uint8

// The origins there are.
const (
	Live     Origin = iota // as it was published
	Replayed               // out of the batches the publisher keeps
	Snapshot               // part of a snapshot
)

func (o Origin) String() string { return [...]string{"live", "replay", "snapshot"}[o] }

// Received is a batch as a subscriber got it.
type Received struct {
	Origin   Origin
	Sequence uint64 // of a snapshot: of the batch it is the state after
	Batch    Batch
	Bytes    int // of the payload
}

// SubscriberOptions set the publisher to follow, and how.
type SubscriberOptions struct {
	// Events is the endpoint of the publisher's PUB socket, tcp://host:port.
	Events string
	// Replay is the endpoint of its ROUTER socket; "" if it has none, and missed events stay missing.
	Replay string
	// Topic is what topics begin with, default "", which is all.
	Topic string
	// Rank is the rank of batches that name none, default 0.
	Rank int32
	// BlockTokens is the number of tokens of a block; events with other blocks count as empty. 0 accepts any
	// block size.
	BlockTokens int
	// Sink takes in the changes; nil for none.
	Sink Sink
	// Observe, if not nil, is shown every batch before it is taken in.
	Observe func(Received)
	// Warn, if not nil, receives losses and messages that cannot be read.
	Warn func(string)
	// Cut, if not nil, is called when the publisher has exceeded Limits, with a *LimitError: all its blocks are
	// forgotten and it is followed no more. Nil: it has no limits.
	Cut    func(error)
	Limits Limits
	// Dial connects to an address; nil: any.
	Dial zmtp.Dial
	// Silence is how long the publisher may be silent in the middle of an answer,
	// default 5 s.
	Silence time.Duration
	// Retry is the pause before a request is made again, default 100 ms; it
	// doubles. Where five attempts have failed, another one is made when a batch
	// comes 50 times as long after it.
	Retry time.Duration
	// Connection is how the connection to the PUB socket is kept.
	Connection zmtp.SubOptions
}

// Subscriber follows the events of one publisher. It requests missed events at its start, after a lost connection, and
// at a gap of sequence numbers.
type Subscriber struct {
	options SubscriberOptions
	sub     *zmtp.Sub
	cancel  context.CancelFunc
	done    sync.WaitGroup

	// Of the goroutine alone.
	normal    normaliser
	digest    uint64 // of the batch applied last
	recognise bool   // digest is that of batch next-1
	unsure    bool   // the publisher of next-1 may not be the current publisher
	holes     bool   // something is missing that the publisher may still have
	retryAt   time.Time
	changes   []Change
	caches    map[cache]struct{} // that the publisher has spoken of
	allowance allowance
	limited   error // why it was cut off

	mu    sync.Mutex
	stats SubscriberStats
}

// SubscriberStats counts what a subscriber has seen.
type SubscriberStats struct {
	Next        uint64 // sequence number of the batch to apply next
	Live        uint64 // batches applied as they were published
	Replayed    uint64 // batches applied out of what the publisher keeps
	Snapshots   uint64 // snapshots applied
	Stale       uint64 // live batches that were known already
	Gaps        uint64 // jumps of the sequence numbers
	Incomplete  uint64 // gaps that were not filled
	Undecodable uint64 // messages and batches that could not be read
	Failures    uint64 // requests that were not answered to the end
	Restarts    uint64 // publishers that began anew
}

// Subscribe begins to follow a publisher, which need not be there yet.
func Subscribe(o SubscriberOptions) (*Subscriber, error) {
	o.Silence, o.Retry = cmp.Or(max(o.Silence, 0), 5*time.Second), cmp.Or(max(o.Retry, 0), 100*time.Millisecond)
	o.Limits, o.Connection.Dial = o.Limits.withDefaults(), o.Dial
	sub, err := zmtp.NewSub(o.Events, o.Topic, o.Connection)
	if err != nil {
		return nil, err
	}
	if o.Replay != "" {
		if err := zmtp.CheckEndpoint(o.Replay); err != nil {
			sub.Close()
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Subscriber{
		options: o, sub: sub, cancel: cancel, unsure: true,
		normal: normaliser{rank: o.Rank, blockTokens: o.BlockTokens}, caches: make(map[cache]struct{}),
	}
	s.done.Go(func() { s.receiveAll(ctx) })
	return s, nil
}

// Close stops following and waits until nothing of the subscriber runs.
func (s *Subscriber) Close() {
	s.cancel()
	s.sub.Close()
	s.done.Wait()
}

// Stats returns what the subscriber has seen so far.
func (s *Subscriber) Stats() SubscriberStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *Subscriber) warnAbout(format string, args ...any) {
	if s.options.Warn != nil {
		s.options.Warn(fmt.Sprintf(format, args...))
	}
}

// updateStats changes the statistics.
func (s *Subscriber) updateStats(f func(*SubscriberStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// nextSequence returns the sequence number of the batch to apply next. Only the goroutine of
// the subscriber changes it.
func (s *Subscriber) nextSequence() uint64 { return s.stats.Next }

func (s *Subscriber) receiveAll(ctx context.Context) {
	var in []zmtp.Delivery
	for {
		var err error
		if in, err = s.sub.Receive(ctx, in[:0]); err != nil {
			return
		}
		for i := range in {
			s.applyDelivery(ctx, &in[i])
			in[i] = zmtp.Delivery{}
			if s.limited != nil {
				s.sub.Close()
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

func (s *Subscriber) applyDelivery(ctx context.Context, d *zmtp.Delivery) {
	switch {
	case d.Err != nil:
		s.unsure = true
		s.warnAbout("%s: %v", s.options.Events, d.Err)
	case d.Connected:
		s.confirmPublisher(ctx)
	default:
		s.applyMessage(ctx, d.Message)
	}
}

// applyMessage takes in a live message.
func (s *Subscriber) applyMessage(ctx context.Context, m zmtp.Message) {
	if len(m) != 3 || len(m[1]) != 8 {
		s.updateStats(func(c *SubscriberStats) { c.Undecodable++ })
		s.warnAbout("message of %d frames, must be a topic, a sequence number of 8 bytes and a batch", len(m))
		return
	}
	n := binary.BigEndian.Uint64(m[1])
	s.confirmPublisher(ctx)
	s.healHoles(ctx)
	if n > s.nextSequence() {
		s.updateStats(func(c *SubscriberStats) { c.Gaps++ })
		s.fillGap(ctx, n)
	}
	if n < s.nextSequence() {
		s.updateStats(func(c *SubscriberStats) { c.Stale++ })
		return
	}
	if ctx.Err() != nil {
		return
	}
	if s.applyBatch(Live, n, m[2]) {
		s.updateStats(func(c *SubscriberStats) { c.Live++ })
	}
}

// applyBatch takes in a batch. One that cannot be read changes nothing.
func (s *Subscriber) applyBatch(from Origin, n uint64, payload []byte) bool {
	b, err := Decode(payload)
	if err != nil {
		s.updateStats(func(c *SubscriberStats) { c.Undecodable++ })
		s.warnAbout("batch %d: %v", n, err)
		return false
	}
	if s.options.Observe != nil {
		s.options.Observe(Received{Origin: from, Sequence: n, Batch: b, Bytes: len(payload)})
	}
	s.changes = s.normal.appendChanges(&b, s.changes[:0])
	if s.options.Cut != nil {
		if err := s.checkChanges(s.changes, false); err != nil {
			s.cutOff(err)
			return false
		}
	}
	if s.options.Sink != nil {
		s.options.Sink.Take(s.changes)
	}
	clear(s.changes)
	s.digest, s.recognise = blockhash.Bytes(payload), true
	s.updateStats(func(c *SubscriberStats) { c.Next = n + 1 })
	return true
}
