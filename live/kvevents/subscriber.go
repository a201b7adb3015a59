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

// Sink receives changes from one goroutine of a subscriber.
type Sink interface {
	// Take applies changes in order.
	Take(changes []Change)
	// Replace replaces all earlier changes by changes.
	Replace(changes []Change)
}

// Origin is how a subscriber received a batch.
type Origin uint8

// Values of Origin.
const (
	Live     Origin = iota // the batch was received when it was published
	Replayed               // the batch is one that the publisher kept
	Snapshot               // the batch is part of a snapshot
)

func (o Origin) String() string { return [...]string{"live", "replay", "snapshot"}[o] }

// Received is a batch that a subscriber received.
type Received struct {
	Origin   Origin
	Sequence uint64 // in a snapshot: of the last batch that the snapshot includes
	Batch    Batch
	Bytes    int // size of the payload
}

// SubscriberOptions configure a subscriber.
type SubscriberOptions struct {
	// Events is the endpoint of the publisher's PUB socket, tcp://host:port.
	Events string
	// Replay is the endpoint of the publisher's ROUTER socket. "": missed events are lost.
	Replay string
	// Topic is the prefix of the topics to receive. Default "": all topics.
	Topic string
	// Rank is the rank of batches without a rank, default 0.
	Rank int32
	// BlockTokens is the number of tokens of a block. Events with another block size store no blocks. 0: any block
	// size.
	BlockTokens int
	// Sink receives the changes; nil: changes are dropped.
	Sink Sink
	// Observe, if not nil, receives every batch before Sink.
	Observe func(Received)
	// Warn, if not nil, receives warnings about lost events and messages that cannot be decoded.
	Warn func(string)
	// Cut, if not nil, is called with a *LimitError when the publisher exceeds Limits. Then all blocks of the
	// publisher are removed, and the subscriber ends. Nil: no limits.
	Cut    func(error)
	Limits Limits
	// Dial opens connections; nil: to any address.
	Dial zmtp.Dial
	// Silence is the maximum silence of the publisher during an answer, default 5 s.
	Silence time.Duration
	// Retry is the pause before the third attempt of a request, default 100 ms. The pause doubles with each attempt.
	// After five failed attempts, a batch that arrives at least 50 Retry later starts another attempt.
	Retry time.Duration
	// Connection configures the connection to the PUB socket.
	Connection zmtp.SubOptions
}

// Subscriber follows the events of one publisher. Subscriber requests missed events at its start, after a lost
// connection, and at a gap in the sequence numbers.
type Subscriber struct {
	options SubscriberOptions
	sub     *zmtp.Sub
	cancel  context.CancelFunc
	done    sync.WaitGroup

	// Used by the subscriber's goroutine only.
	normal    normaliser
	digest    uint64 // hash of the last applied batch
	recognise bool   // digest is the hash of batch next-1
	unsure    bool   // the publisher may have been restarted
	holes     bool   // events are missing that the publisher may still have
	retryAt   time.Time
	changes   []Change
	caches    map[cache]struct{} // ranks and tiers in the publisher's events
	allowance allowance
	limited   error // the limit that was exceeded

	mu    sync.Mutex
	stats SubscriberStats
}

// SubscriberStats are the counters of a subscriber.
type SubscriberStats struct {
	Next        uint64 // sequence number of the next batch to apply
	Live        uint64 // live batches applied
	Replayed    uint64 // batches applied from the publisher's kept batches
	Snapshots   uint64 // number of applied snapshots
	Stale       uint64 // live batches that were already applied
	Gaps        uint64 // gaps in the sequence numbers
	Incomplete  uint64 // gaps that were not filled
	Undecodable uint64 // messages and batches that could not be decoded
	Failures    uint64 // requests without a complete answer
	Restarts    uint64 // detected restarts of the publisher
}

// Subscribe starts to follow a publisher, which may start later.
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

// Close stops the subscriber and waits for its goroutines.
func (s *Subscriber) Close() {
	s.cancel()
	s.sub.Close()
	s.done.Wait()
}

// Stats returns the counters of the subscriber.
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

// updateStats changes the counters under their lock.
func (s *Subscriber) updateStats(f func(*SubscriberStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// nextSequence returns the sequence number of the next batch to apply. Only the subscriber's goroutine changes the
// number.
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

// applyMessage applies a live message.
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

// applyBatch applies a batch. A batch that cannot be decoded has no effect.
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
