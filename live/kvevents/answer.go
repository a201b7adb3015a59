package kvevents

import (
	"encoding/binary"

	"github.com/replay-llm/replay/live/kvevents/zmtp"
)

// Sequence numbers with special meanings in answers.
const (
	endSequence      = ^uint64(0) // -1: the answer is complete
	snapshotSequence = endSequence - 1
)

// snapshotBatch is the maximum number of events in a batch of a snapshot.
const snapshotBatch = 1000

// answerRequest answers a request for all batches from a sequence number on.
func (t *Tee) answerRequest(q zmtp.Request) {
	if len(q.Frames) != 2 || len(q.Frames[0]) != 0 || len(q.Frames[1]) != 8 {
		t.mu.Lock()
		t.countLost(&t.stats.Refused, 1, "requests refused, %d in all: must be an empty frame and one of %d bytes", 8)
		t.mu.Unlock()
		return
	}
	start := binary.BigEndian.Uint64(q.Frames[1])
	oldest, any := t.ring.oldestSequence()
	kind, alive := &t.stats.Replays, true
	if any && start < oldest && t.options.Layout == OwnLayout {
		kind = &t.stats.Snapshots
		alive = t.sendSnapshot(q)
	} else {
		for _, s := range t.ring.stepsFrom(start) {
			if alive = t.sendKept(q, s.sequence, s.payload); !alive {
				break
			}
		}
	}
	if alive {
		t.sendKept(q, endSequence, nil)
	}
	t.mu.Lock()
	*kind++
	t.mu.Unlock()
}

// sendKept sends a kept batch, or the end of an answer.
func (t *Tee) sendKept(q zmtp.Request, n uint64, payload []byte) bool {
	return q.Reply(t.options.Layout.answerFrames(t.options.Topic, n, payload))
}

func sendBatch(q zmtp.Request, n uint64, payload []byte) bool {
	return q.Reply(zmtp.Message{nil, encodeSequence(n), payload})
}

// sendSnapshot sends the sequence number of the snapshot, a clear, and every cached block after its parent.
func (t *Tee) sendSnapshot(q zmtp.Request) bool {
	last := t.next - 1
	if !sendBatch(q, snapshotSequence, encodeSequence(last)) {
		return false
	}
	b := t.newBatch(0, Event{Kind: Cleared})
	if !sendBatch(q, last, b.Append(nil)) {
		return false
	}
	blocks := t.cached.orderedBlocks()
	var buffer packed
	for from := 0; from < len(blocks); {
		rank, to := t.packEvents(blocks, from, &buffer)
		b := t.newBatch(rank, buffer.events...)
		if !sendBatch(q, last, b.Append(make([]byte, 0, eventBytes*len(b.Events)))) {
			return false
		}
		from = to
	}
	return true
}

// eventBytes is the approximate size of an event of a snapshot on the wire, in bytes.
const eventBytes = 128

// packed is a batch of a snapshot that is being built.
type packed struct {
	events []Event
	hashes [2 * snapshotBatch]uint64 // for each event, the hash of its block and the hash of the block's tokens
}

// packEvents converts blocks from index from on to events of one batch. All blocks of a batch have the same rank.
func (t *Tee) packEvents(blocks []*cachedBlock, from int, into *packed) (rank int32, to int) {
	rank = blocks[from].rank
	into.events = into.events[:0]
	for to = from; to < len(blocks) && to-from < snapshotBatch && blocks[to].rank == rank; to++ {
		b := blocks[to]
		h := into.hashes[2*(to-from):]
		h[0], h[1] = b.hash, b.tokens
		into.events = append(into.events, Event{
			Kind: Stored, Blocks: h[:1], Parent: b.parent, HasParent: b.hasParent,
			TokensHashes: h[1:2], BlockTokens: t.options.BlockTokens, Medium: mediumName(b.tier),
		})
	}
	return rank, to
}
