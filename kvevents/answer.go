package kvevents

import (
	"encoding/binary"

	"github.com/replay-llm/replay/kvevents/zmtp"
)

// Sequence numbers with a meaning of their own, as they are on the wire.
const (
	endSequence      = ^uint64(0) // -1: the answer is complete
	snapshotSequence = endSequence - 1
)

// snapshotBatch is the number of events of a batch of a snapshot.
const snapshotBatch = 1000

// answer answers a request for all batches from a sequence number on.
func (t *Tee) answer(q zmtp.Request) {
	if len(q.Frames) != 2 || len(q.Frames[0]) != 0 || len(q.Frames[1]) != 8 {
		t.mu.Lock()
		t.lost(&t.stats.Refused, 1, "requests refused, %d in all: want an empty frame and one of %d bytes", 8)
		t.mu.Unlock()
		return
	}
	start := binary.BigEndian.Uint64(q.Frames[1])
	oldest, any := t.ring.oldest()
	kind, alive := &t.stats.Replays, true
	if any && start < oldest {
		kind = &t.stats.Snapshots
		alive = t.snapshot(q.Peer)
	} else {
		t.ring.from(start, func(s step) bool {
			alive = send(q.Peer, s.sequence, s.payload)
			return alive
		})
	}
	if alive {
		send(q.Peer, endSequence, nil)
	}
	t.mu.Lock()
	*kind++
	t.mu.Unlock()
}

func send(p *zmtp.Peer, n uint64, payload []byte) bool {
	return p.Send(zmtp.Message{nil, sequence(n), payload})
}

// snapshot sends what is cached: the sequence number it is the state after, a
// clear, and every block that hangs on a root after its parent.
func (t *Tee) snapshot(p *zmtp.Peer) bool {
	last := t.next - 1
	if !send(p, snapshotSequence, sequence(last)) {
		return false
	}
	b := t.batch(0, Event{Kind: Cleared})
	if !send(p, last, b.Append(nil)) {
		return false
	}
	blocks := t.cached.ordered()
	for from := 0; from < len(blocks); {
		events, rank, to := t.pack(blocks, from)
		b := t.batch(rank, events...)
		if !send(p, last, b.Append(nil)) {
			return false
		}
		from = to
	}
	return true
}

// pack makes events of blocks from the given one on, of one rank.
func (t *Tee) pack(blocks []*cachedBlock, from int) (events []Event, rank int32, to int) {
	rank = blocks[from].rank
	for to = from; to < len(blocks) && to-from < snapshotBatch && blocks[to].rank == rank; to++ {
		b := blocks[to]
		events = append(events, Event{
			Kind: Stored, Blocks: []uint64{b.hash}, Parent: b.parent, HasParent: b.hasParent,
			TokensHashes: []uint64{b.tokens}, BlockTokens: t.options.BlockTokens, Medium: medium(b.tier),
		})
	}
	return events, rank, to
}
