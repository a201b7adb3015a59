package kvevents

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
)

// A publisher that exceeds its limits is cut off once. The subscriber removes its blocks and applies no further
// event. The index never has more blocks than the limit.
func TestRoguePublishers(t *testing.T) {
	one := func(n uint64) Batch {
		return Batch{Events: []Event{{Kind: Stored, Blocks: []uint64{n}, TokensHashes: []uint64{n}, BlockTokens: blockTokens}}}
	}
	for _, test := range []struct {
		want   string
		limits Limits
		batch  func(n uint64) Batch
	}{
		{"blocks", Limits{Blocks: 100}, one},
		{"blocks", Limits{Blocks: 100}, func(n uint64) Batch {
			b := one(n)
			for i := range uint64(1000) {
				b.Events[0].Blocks = append(b.Events[0].Blocks, 1e6*n+i)
				b.Events[0].TokensHashes = append(b.Events[0].TokensHashes, i)
			}
			return b
		}},
		{"rate", Limits{Rate: 50}, func(uint64) Batch { return one(7) }},
		{"rate", Limits{Rate: 50}, func(uint64) Batch { return Batch{} }},
		{"rate", Limits{Rate: 50}, func(n uint64) Batch { return Batch{Events: []Event{{Kind: Removed, Blocks: []uint64{n}}}} }},
		{"caches", Limits{}, func(n uint64) Batch { b := one(7); b.Rank, b.HasRank = int32(n), true; return b }},
	} {
		t.Run(test.want, func(t *testing.T) {
			p, err := zmtp.ListenPub(zmtp.Listener{Endpoint: "tcp://127.0.0.1:0"}, 1000)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			index := NewIndex(nil)
			feed := index.Feed(1)
			var cuts atomic.Int32
			cut := make(chan error, 1)
			s, err := Subscribe(SubscriberOptions{Events: p.Endpoint(), BlockTokens: blockTokens, Sink: feed, Limits: test.limits, Cut: func(err error) {
				if cuts.Add(1) == 1 {
					cut <- err
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			poll.Until(t, "a subscriber", func() bool { return p.Subscribers() == 1 })
			late := time.After(hang)
			for n := uint64(0); ; n++ {
				b := test.batch(n)
				p.Send(zmtp.Message{nil, binary.BigEndian.AppendUint64(nil, n), b.Append(nil)})
				if size := index.Size(); test.limits.Blocks > 0 && size > test.limits.Blocks {
					t.Fatalf("%d blocks are known, want at most %d", size, test.limits.Blocks)
				}
				select {
				case err := <-cut:
					var limit *LimitError
					if !errors.As(err, &limit) || limit.Reason != test.want {
						t.Errorf("cut off for %v, want %s", err, test.want)
					}
					poll.Until(t, "no subscriber", func() bool { return p.Subscribers() == 0 })
					if n := index.Size(); n != 0 || cuts.Load() != 1 || len(feed.fed) != 0 {
						t.Errorf("%d blocks are left, after %d times", n, cuts.Load())
					}
					return
				case <-late:
					t.Fatal("it goes on")
				default:
					if n%64 == 63 {
						poll.Wait(func() bool { return len(cut) > 0 || s.Stats().Next+64 > n })
					}
				}
			}
		})
	}
}

// A publisher may accumulate at most ten seconds of its rate.
func TestAllowance(t *testing.T) {
	now := time.Unix(1000, 0)
	var a allowance
	if err := a.spend(100, 10, now); err != nil {
		t.Errorf("ten seconds' worth at once: %v", err)
	}
	if err := a.spend(10, 10, now.Add(time.Second)); err != nil {
		t.Errorf("a second's worth after a second: %v", err)
	}
	if err := a.spend(1, 10, now.Add(time.Second)); err == nil || !strings.Contains(err.Error(), "more than 10 blocks and events a second") {
		t.Errorf("more: %v", err)
	}
	if l := (Limits{}).withDefaults(); l.Blocks != 1<<20 || l.Rate != 500_000 || l.longestAnswer() != 512<<20 {
		t.Errorf("defaults %+v, answers of %d", l, l.longestAnswer())
	}
}
