package kvevents

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/scheduler"
)

// Subscribers miss the batches that a fault drops. Subscribers receive all other batches in order, also if some are
// delayed. The replay socket has all batches.
func TestFaultsOfBatches(t *testing.T) {
	n := 0
	tee, err := NewTee(TeeOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", BlockTokens: 16, Fault: func() (bool, time.Duration) {
		n++
		return n%3 == 0, time.Duration(n%2) * 20 * time.Millisecond
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer tee.Close()
	sub, err := zmtp.NewSub(tee.Events(), "", zmtp.SubOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	poll.Until(t, "the subscriber is there", func() bool { return tee.Stats().Subscribers == 1 })
	for i := range 9 {
		tee.Enqueue([]scheduler.KVEvent{{Stored: []scheduler.KVBlock{{Seq: uint64(i + 1), Tokens: uint64(i + 1)}}}})
	}
	var got []uint64
	for len(got) < 6 {
		list, err := sub.Receive(within(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Message != nil {
				got = append(got, binary.BigEndian.Uint64(d.Message[1]))
			}
		}
	}
	if want := []uint64{0, 1, 3, 4, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("batches %v, want %v", got, want)
	}
	d, err := zmtp.Dial(nil).Dealer(within(t), tee.Replay(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Send(zmtp.Message{nil, encodeSequence(2)}); err != nil {
		t.Fatal(err)
	}
	m, err := d.Receive()
	if err != nil || binary.BigEndian.Uint64(m[1]) != 2 {
		t.Errorf("%v: %v, want the lost batch 2", m, err)
	}
}
