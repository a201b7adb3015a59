package kvevents

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/scheduler"
)

// converse requests batches from a number on from a tee, and returns the answer without the empty frames.
func converse(t testing.TB, tee *Tee, from uint64) []step {
	t.Helper()
	d, err := zmtp.Dial(nil).Dealer(within(t), tee.Replay(), hang)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Send(zmtp.Message{nil, encodeSequence(from)}); err != nil {
		t.Fatal(err)
	}
	var out []step
	for {
		m, err := d.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if len(m) != 3 || len(m[0]) != 0 || len(m[1]) != 8 {
			t.Fatalf("answer of frames %q", m)
		}
		out = append(out, step{binary.BigEndian.Uint64(m[1]), m[2]})
		if len(m[2]) == 0 {
			return out
		}
	}
}

func store(parent uint64, blocks ...scheduler.KVBlock) scheduler.KVEvent {
	return scheduler.KVEvent{Parent: parent, HasParent: parent != 0, Stored: blocks}
}

// A snapshot equals a result calculated by hand.
func TestExample(t *testing.T) {
	tee := open(t, TeeOptions{BlockTokens: 4, BufferSteps: 2, Now: func() time.Time { return time.UnixMilli(1500) }})
	tee.Enqueue([]scheduler.KVEvent{
		store(0, scheduler.KVBlock{Seq: 11, Tokens: 14643705804678351452}, scheduler.KVBlock{Seq: 12, Tokens: 16777012769546811212}),
		store(12, scheduler.KVBlock{Seq: 13, Tokens: 483935686894639516}),
		{Removed: []uint64{12}},
		store(0, scheduler.KVBlock{Seq: 21, Tokens: 9143094415614847814}),
	})
	published(t, tee, 4)
	const snapshot = "93cb3ff80000000000009285a474797065ab426c6f636b53746f726564ac626c6f636b5f686173686573910bb1706172656e745f626c6f636b5f68617368c0ad746f6b656e735f68617368657391d3cb38e4d7fb2dca5caa626c6f636b5f73697a650485a474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865739115b1706172656e745f626c6f636b5f68617368c0ad746f6b656e735f68617368657391cf7ee2cbedc694ab46aa626c6f636b5f73697a650400"
	want := []step{
		{snapshotSequence, encodeSequence(3)},
		{3, unhex(t, clearVector)},
		{3, unhex(t, snapshot)},
		{endSequence, []byte{}},
	}
	if got := converse(t, tee, 0); !reflect.DeepEqual(got, want) {
		for _, s := range got {
			t.Errorf("%d %s", int64(s.sequence), hex.EncodeToString(s.payload))
		}
	}
	for from, want := range map[uint64][]int64{2: {2, 3, -1}, 4: {-1}, 3: {3, -1}, 100: {-1}, endSequence: {-1}} {
		var got []int64
		for _, s := range converse(t, tee, from) {
			got = append(got, int64(s.sequence))
		}
		if !slices.Equal(got, want) {
			t.Errorf("asked for %d: %d, want %d", from, got, want)
		}
	}
}

// Requests just before and after the oldest kept batch, for rings of several sizes.
func TestEvictionBoundary(t *testing.T) {
	for _, size := range []int{1, 2, 16} {
		tee := open(t, TeeOptions{BufferSteps: size})
		if got := converse(t, tee, 0); len(got) != 1 || got[0].sequence != endSequence {
			t.Errorf("ring of %d, nothing published: %d frames, want the end alone", size, len(got))
		}
		const n = 20
		for i := range uint64(n) {
			tee.Enqueue([]scheduler.KVEvent{store(i, scheduler.KVBlock{Seq: i + 1, Tokens: i})})
		}
		published(t, tee, n)
		oldest := uint64(n - size)
		got := converse(t, tee, oldest)
		if len(got) != size+1 || got[0].sequence != oldest || got[size-1].sequence != n-1 {
			t.Errorf("ring of %d, asked for the oldest: %d frames from %d", size, len(got), got[0].sequence)
		}
		if got := converse(t, tee, oldest-1); got[0].sequence != snapshotSequence || len(got) != 4 {
			t.Errorf("ring of %d, asked for one before the oldest: %d frames from %d, want a snapshot", size, len(got), int64(got[0].sequence))
		}
		if got := converse(t, tee, n); len(got) != 1 {
			t.Errorf("ring of %d, asked for the next: %d frames, want the end alone", size, len(got))
		}
	}
}

// A ring keeps the latest steps, and fewer steps if they are large.
func TestRing(t *testing.T) {
	small, large := make([]byte, 10), make([]byte, maxRing/3+1)
	r, plain := &ring{most: 7}, []uint64{}
	for i := range uint64(200) {
		payload := small
		if i > 100 && i%5 == 0 || i > 150 && i < 160 {
			payload = large
		}
		r.addStep(step{i, payload})
		plain = append(plain, i)
		if len(plain) > 7 {
			plain = plain[1:]
		}
		var kept []uint64
		bytes := 0
		for _, s := range r.stepsFrom(0) {
			kept = append(kept, s.sequence)
			bytes += len(s.payload)
		}
		tail := plain[len(plain)-len(kept):]
		if !slices.Equal(kept, tail) || bytes != r.bytes || bytes > maxRing || len(kept) < 2 && i > 0 || i < 100 && len(kept) != len(plain) {
			t.Fatalf("after %d: kept %v of %v, %d bytes of %d", i, kept, plain, bytes, r.bytes)
		}
	}
}

// literal computes a snapshot directly by the rules of the package comment. literal finds the depth of each block by
// walking to the root.
type literal struct {
	order  []uint64
	blocks map[uint64]cachedBlock
}

func (l *literal) apply(e *scheduler.KVEvent) {
	parent, has := e.Parent, e.HasParent
	for _, b := range e.Stored {
		copies := int32(0)
		if there, ok := l.blocks[b.Seq]; ok {
			copies = there.copies + 1
		} else {
			l.order = append(slices.DeleteFunc(l.order, func(h uint64) bool { return h == b.Seq }), b.Seq)
		}
		l.blocks[b.Seq] = cachedBlock{blockName: blockName{hash: b.Seq}, tokens: b.Tokens, parent: parent, hasParent: has, copies: copies}
		parent, has = b.Seq, true
	}
	for _, h := range e.Removed {
		if b := l.blocks[h]; b.copies > 0 {
			b.copies--
			l.blocks[h] = b
		} else {
			delete(l.blocks, h)
		}
	}
}

func (l *literal) depth(h uint64) int {
	for d := 0; d <= len(l.blocks); d++ {
		b, ok := l.blocks[h]
		if !ok {
			return -1
		}
		if !b.hasParent {
			return d
		}
		h = b.parent
	}
	return -1
}

func (l *literal) ordered() []cachedBlock {
	var out []cachedBlock
	for _, h := range l.order {
		if b, ok := l.blocks[h]; ok && l.depth(h) >= 0 {
			out = append(out, slices.Repeat([]cachedBlock{b}, 1+int(b.copies))...)
		}
	}
	slices.SortStableFunc(out, func(a, b cachedBlock) int { return cmp.Compare(l.depth(a.hash), l.depth(b.hash)) })
	return out
}

// After any events, including missing roots and cycles, the snapshot equals that of literal. Parents precede their
// children.
func TestSnapshotOrder(t *testing.T) {
	for seed := range uint64(passes(300)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		k, l := newCached(), &literal{blocks: map[uint64]cachedBlock{}}
		name := func() uint64 { return 1 + rng.Uint64N(12) }
		for range 1 + rng.IntN(80) {
			var e scheduler.KVEvent
			switch rng.IntN(12) {
			case 0, 1, 2, 3:
				e.Removed = []uint64{name()}
			default:
				e = store(rng.Uint64N(2)*name(), scheduler.KVBlock{Seq: name(), Tokens: rng.Uint64N(99)})
				for range rng.IntN(4) {
					e.Stored = append(e.Stored, scheduler.KVBlock{Seq: name(), Tokens: rng.Uint64N(99)})
				}
			}
			k.applyEvent(&e)
			l.apply(&e)
			if rng.IntN(10) == 0 {
				k.closeGaps()
			}
			var got []cachedBlock
			for _, b := range k.orderedBlocks() {
				got = append(got, *b)
			}
			if want := l.ordered(); !slices.Equal(got, want) {
				t.Fatalf("seed %d:\n%v, want\n%v", seed, got, want)
			}
		}
	}
}

// changes returns the snapshot as changes for an index.
func (k *cached) changes() (all []Change) {
	for _, b := range k.orderedBlocks() {
		e := store(b.parent, scheduler.KVBlock{Seq: b.hash, Tokens: b.tokens})
		all = append(all, Change{Event: e})
	}
	return all
}

// An index that is built from the snapshot of an engine's events gives the same answers as an index built from all
// events. The index has as many blocks as the engine.
func TestSnapshotIsTheLiveStream(t *testing.T) {
	l := newLoad(1, 400, 30)
	k, want := newCached(), NewIndex(func(s string) { t.Error(s) })
	feed := want.Feed(0)
	take := func(events []scheduler.KVEvent) {
		for i := range events {
			k.applyEvent(&events[i])
		}
		feed.Take(changesOf(events))
	}
	check := func() {
		t.Helper()
		got := NewIndex(func(s string) { t.Error(s) })
		got.Feed(0).Replace(k.changes())
		if hits := sameAnswers(t, got, want, l.queries(5, 500)); hits == 0 {
			t.Error("no query found anything")
		}
		if got.Size() != want.Size() || got.Size() != len(k.at) {
			t.Errorf("%d blocks, want %d, of %d in the snapshot", got.Size(), want.Size(), len(k.at))
		}
	}
	for pass := range passes(2000) {
		take(l.step(t))
		if pass%200 == 199 {
			check()
		}
	}
	l.drain(t, take)
	check()
	if want.Size() != l.detail.Cached || blocksOf(want) != l.detail.Cached {
		t.Errorf("%d blocks in the index, %d to be found, %d in the engine", want.Size(), blocksOf(want), l.detail.Cached)
	}
}

// Ranks and memories of one tee are separate in a snapshot. Each batch of a snapshot has one rank.
func TestSnapshotOfRanks(t *testing.T) {
	tee := open(t, TeeOptions{BufferSteps: 1})
	event := func(rank int32, tier scheduler.Tier, parent uint64, seq uint64) scheduler.KVEvent {
		e := store(parent, scheduler.KVBlock{Seq: seq, Tokens: seq})
		e.Rank, e.Tier = rank, tier
		return e
	}
	gone := scheduler.KVEvent{Removed: []uint64{2}, Rank: 1}
	tee.Enqueue([]scheduler.KVEvent{
		event(0, 0, 0, 1), event(1, 0, 0, 1), event(0, 0, 1, 2), event(1, 0, 1, 2), event(0, scheduler.HostPinned, 0, 1), gone,
		event(0, 0, 0, 9),
	})
	published(t, tee, 7)
	var ranks []int32
	var events []Event
	for _, s := range converse(t, tee, 0)[2:] {
		if len(s.payload) == 0 {
			break
		}
		b, err := Decode(s.payload)
		if err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, b.Rank)
		events = append(events, b.Events...)
	}
	if !slices.Equal(ranks, []int32{0, 1}) || len(events) != 5 {
		t.Errorf("batches of ranks %v with %d events, want one of each rank with 5 in all: %+v", ranks, len(events), events)
	}
	x := NewIndex(func(s string) { t.Error(s) })
	s := follow(t, tee, x)
	if err := s.Applied(within(t), 7); err != nil {
		t.Fatal(err)
	}
	got := x.Match([]uint64{1, 2}, nil)
	if len(got) != 2 || got[0].Blocks != 2 || got[1].Blocks != 1 || got[1].Member.Rank != 1 {
		t.Errorf("%v, want 2 blocks on rank 0 and 1 on rank 1", got)
	}
	if host := x.tiers[scheduler.HostPinned].Match([]uint64{1, 2}, false, nil); len(host) != 1 || host[0].Blocks != 1 {
		t.Errorf("in host memory %v, want 1 block", host)
	}
}
