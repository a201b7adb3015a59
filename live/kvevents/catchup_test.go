package kvevents

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/scheduler"
)

// script is a publisher with answers set by the test.
type script struct {
	pub    *zmtp.Pub
	router *zmtp.Router
}

func newScript(t *testing.T) *script {
	t.Helper()
	pub, err := zmtp.ListenPub(zmtp.Listener{Endpoint: "tcp://127.0.0.1:0"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pub.Close)
	router, err := zmtp.ListenRouter(zmtp.Listener{Endpoint: "tcp://127.0.0.1:0"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(router.Close)
	return &script{pub, router}
}

func (p *script) subscribe(t *testing.T, x *Index) *Subscriber {
	t.Helper()
	s, err := Subscribe(SubscriberOptions{
		Events: p.pub.Endpoint(), Replay: p.router.Endpoint(), Sink: x.Feed(0), Retry: time.Millisecond, Silence: hang,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// asked waits for a request, and returns it with its first requested number.
func (p *script) asked(t *testing.T) (zmtp.Request, uint64) {
	t.Helper()
	select {
	case q := <-p.router.Requests():
		return q, binary.BigEndian.Uint64(q.Frames[1])
	case <-time.After(hang):
		t.Fatal("nobody asks")
	}
	panic("unreachable")
}

// storedBatch returns a batch that stores a block at the root.
func storedBatch(seq uint64) []byte {
	b := Batch{Time: 1, HasRank: true, Events: []Event{{Kind: Stored, Blocks: []uint64{seq}, TokensHashes: []uint64{seq}, BlockTokens: 4}}}
	return b.Append(nil)
}

func (p *script) live(n uint64, payload []byte) {
	p.pub.Send(zmtp.Message{nil, encodeSequence(n), payload})
}

// An incomplete snapshot has no effect, and the subscriber requests it again.
func TestTornSnapshot(t *testing.T) {
	p := newScript(t)
	x := NewIndex(nil)
	s := p.subscribe(t, x)
	q, from := p.asked(t)
	sendBatch(q, 0, storedBatch(100))
	sendBatch(q, 1, storedBatch(101))
	sendBatch(q, endSequence, nil)
	if err := s.Applied(within(t), 2); err != nil || from != 0 {
		t.Fatalf("asked from %d: %v", from, err)
	}
	p.live(9, storedBatch(109)) // batch 9 leaves a gap
	clears := Batch{HasRank: true, Events: []Event{{Kind: Cleared}}}
	for range 3 {
		if q, from = p.asked(t); from != 2 {
			t.Fatalf("asked from %d, want 2", from)
		}
		sendBatch(q, snapshotSequence, encodeSequence(8))
		sendBatch(q, 8, clears.Append(nil))
		sendBatch(q, 8, storedBatch(1))
		if x.Size() != 2 {
			t.Errorf("%d blocks in the middle of a snapshot, want 2 as before", x.Size())
		}
		// A frame of a wrong length ends the answer.
		q.Reply(zmtp.Message{nil, []byte("short"), []byte("x")})
	}
	if q, _ = p.asked(t); x.Size() != 2 {
		t.Errorf("%d blocks after snapshots that broke off, want 2 as before", x.Size())
	}
	sendBatch(q, snapshotSequence, encodeSequence(8))
	sendBatch(q, 8, clears.Append(nil))
	for seq := range uint64(5) {
		sendBatch(q, 8, storedBatch(seq))
	}
	sendBatch(q, endSequence, nil)
	if err := s.Applied(within(t), 10); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); x.Size() != 6 || st.Snapshots != 1 || st.Failures != 3 || st.Incomplete != 0 {
		t.Errorf("%d blocks, want 5 of the snapshot and the live one; %+v", x.Size(), st)
	}
}

// A batch that occurs twice in an answer, or is older than the requested number, is applied once.
func TestAnswerWithRepeats(t *testing.T) {
	p := newScript(t)
	x := NewIndex(func(s string) { t.Error(s) })
	s := p.subscribe(t, x)
	answer := func(batches ...uint64) {
		q, _ := p.asked(t)
		for _, n := range batches {
			sendBatch(q, n, storedBatch(100+n))
		}
		sendBatch(q, endSequence, nil)
	}
	answer(0, 0, 1)
	if err := s.Applied(within(t), 2); err != nil {
		t.Fatal(err)
	}
	gone := Batch{HasRank: true, Events: []Event{{Kind: Removed, Blocks: []uint64{100, 101}}}}
	p.live(3, gone.Append(nil)) // batch 3 leaves a gap
	answer(1, 2)
	if err := s.Applied(within(t), 4); err != nil {
		t.Fatal(err)
	}
	if x.Size() != 1 {
		t.Errorf("%d blocks, want the one of batch 2", x.Size())
	}
}

// If its requests fail, a subscriber continues with later messages. The subscriber rebuilds everything when the
// publisher answers again.
func TestHeals(t *testing.T) {
	p := newScript(t)
	x := NewIndex(nil)
	var answers atomic.Bool
	go func() {
		for q := range p.router.Requests() {
			if !answers.Load() {
				q.Reply(zmtp.Message{[]byte("no")})
				continue
			}
			for n := range uint64(11) {
				sendBatch(q, n, storedBatch(100+n))
			}
			sendBatch(q, endSequence, nil)
		}
	}()
	s := p.subscribe(t, x)
	poll.Until(t, "a subscriber", func() bool { return p.pub.Subscribers() > 0 })
	p.live(10, storedBatch(110))
	if err := s.Applied(within(t), 11); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); x.Size() != 1 || st.Incomplete != 1 || st.Failures < attempts {
		t.Errorf("%d blocks, want the live one; %+v", x.Size(), st)
	}
	answers.Store(true)
	poll.Until(t, "12 blocks", func() bool { // later batches are applied
		if x.Size() >= 12 {
			return true
		}
		p.live(11, storedBatch(111))
		return false
	})
}

// A publisher without snapshots may answer with later batches than requested. The subscriber applies the later
// batches and reports the missing batches.
func TestPublisherWithoutSnapshots(t *testing.T) {
	p := newScript(t)
	x := NewIndex(nil)
	s := p.subscribe(t, x)
	q, _ := p.asked(t)
	for n := uint64(5); n < 8; n++ {
		sendBatch(q, n, storedBatch(100+n))
	}
	sendBatch(q, endSequence, nil)
	if err := s.Applied(within(t), 8); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); x.Size() != 3 || st.Incomplete != 1 || st.Replayed != 3 {
		t.Errorf("%d blocks; %+v", x.Size(), st)
	}
}

// Each rank has its own publisher. The clear in the snapshot of one rank does not remove blocks of the other rank.
func TestSnapshotsOfRanksApart(t *testing.T) {
	x := NewIndex(func(s string) { t.Error(s) })
	for rank := range int32(2) {
		tee := open(t, TeeOptions{BufferSteps: 1})
		for seq := range uint64(3) {
			e := store(0, scheduler.KVBlock{Seq: seq + 1, Tokens: seq + 1})
			e.Rank = rank
			tee.Enqueue([]scheduler.KVEvent{e})
		}
		published(t, tee, 3)
		if s := follow(t, tee, x); s.Applied(within(t), 3) != nil || s.Stats().Snapshots != 1 {
			t.Fatalf("rank %d: %+v", rank, s.Stats())
		}
	}
	if blocks := x.Blocks(); len(blocks) != 2 || blocks[0].Blocks != 3 || blocks[1].Blocks != 3 {
		t.Errorf("blocks by rank %v, want 3 each", blocks)
	}
	// A clear of the engine removes the blocks of all ranks of the worker.
	if x.Feed(0).Take([]Change{{Clear: true}}); x.Size() > 0 {
		t.Fatalf("%d blocks after a clear", x.Size())
	}
}
