package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/sim/blockhash"
)

// confirmPublisher checks after a reconnection that the publisher is the same, and applies missed events.
//
// confirmPublisher requests the last applied batch again. A publisher that was restarted does not have this batch, or
// has different content.
func (s *Subscriber) confirmPublisher(ctx context.Context) {
	if !s.unsure {
		return
	}
	s.unsure = false
	if s.options.Replay == "" {
		return // only the sequence numbers can reveal a restart
	}
	next := s.nextSequence()
	if next == 0 || !s.recognise {
		s.rebuildAll(ctx)
		return
	}
	a, ok := s.requestRepeatedly(ctx, next-1)
	switch {
	case !ok:
		return
	case a.snapshot:
	case len(a.steps) == 0 || a.steps[0].sequence == next-1 && blockhash.Bytes(a.steps[0].payload) != s.digest:
		s.warnAbout("%s: the publisher began anew", s.options.Events)
		s.updateStats(func(c *SubscriberStats) { c.Restarts++ })
		s.forgetPublisher()
		s.rebuildAll(ctx)
		return
	case a.steps[0].sequence == next-1:
		a.steps = a.steps[1:]
	}
	s.applyAnswer(a)
}

// forgetPublisher removes all blocks of a publisher that was restarted.
func (s *Subscriber) forgetPublisher() {
	if s.options.Sink != nil {
		s.options.Sink.Replace(nil)
	}
	s.normal.kinds = nil
	s.recognise = false
	s.updateStats(func(c *SubscriberStats) { c.Next = 0 })
}

// rebuildAll requests all batches, and rebuilds the sink from the answer.
func (s *Subscriber) rebuildAll(ctx context.Context) {
	if a, ok := s.requestRepeatedly(ctx, 0); ok {
		s.applyEverything(a)
	}
}

// applyEverything applies the answer to a request for all batches. A snapshot, or an answer that starts with the
// first batch, replaces all known blocks.
func (s *Subscriber) applyEverything(a answer) {
	switch {
	case a.snapshot:
	case len(a.steps) > 0 && a.steps[0].sequence == 0:
		if s.nextSequence() > 0 {
			s.forgetPublisher()
		}
	default: // a publisher without snapshots, or without any batch
		for len(a.steps) > 0 && a.steps[0].sequence < s.nextSequence() {
			a.steps = a.steps[1:]
		}
	}
	s.applyAnswer(a)
}

// fillGap requests and applies the missing batches before batch n.
func (s *Subscriber) fillGap(ctx context.Context, n uint64) {
	if s.options.Replay == "" {
		s.warnAbout("batches %d to %d are lost: no replay endpoint", s.nextSequence(), n-1)
	} else if a, ok := s.requestRepeatedly(ctx, s.nextSequence()); ok {
		s.applyAnswer(a)
	}
	if s.nextSequence() < n && ctx.Err() == nil {
		s.updateStats(func(c *SubscriberStats) { c.Incomplete++ })
		s.warnAbout("batches %d to %d are lost", s.nextSequence(), n-1)
		s.updateStats(func(c *SubscriberStats) { c.Next = n })
	}
}

// healHoles requests all batches again after requests without an answer.
func (s *Subscriber) healHoles(ctx context.Context) {
	if !s.holes || time.Now().Before(s.retryAt) {
		return
	}
	s.retryAt = time.Now().Add(healPauses * s.options.Retry)
	a, err := s.requestOnce(ctx, 0)
	if err != nil {
		return
	}
	s.holes = false
	s.applyEverything(a)
}

// answer is the answer of a publisher: batches or a snapshot.
type answer struct {
	snapshot bool
	steps    []step
	state    uint64     // of a snapshot: the sequence number of the last batch that it includes
	batches  []Received // batches of a snapshot
}

// applyAnswer applies a complete answer.
func (s *Subscriber) applyAnswer(a answer) {
	if a.snapshot {
		s.applySnapshot(a)
		return
	}
	for _, t := range a.steps {
		if t.sequence < s.nextSequence() {
			continue // applied already; a second time would count its blocks twice
		}
		if t.sequence > s.nextSequence() {
			s.updateStats(func(c *SubscriberStats) { c.Incomplete++ })
			s.warnAbout("batches %d to %d are lost: the publisher keeps them no more", s.nextSequence(), t.sequence-1)
		}
		if s.applyBatch(Replayed, t.sequence, t.payload) {
			s.updateStats(func(c *SubscriberStats) { c.Replayed++ })
		}
	}
}

// applySnapshot replaces all known blocks by a snapshot.
func (s *Subscriber) applySnapshot(a answer) {
	var all []Change
	for i := range a.batches {
		if s.options.Observe != nil {
			s.options.Observe(a.batches[i])
		}
		all = s.normal.appendChanges(&a.batches[i].Batch, all)
	}
	if s.options.Cut != nil {
		if err := s.checkChanges(all, true); err != nil {
			s.cutOff(err)
			return
		}
	}
	if s.options.Sink != nil {
		s.options.Sink.Replace(all)
	}
	s.recognise = false // a snapshot does not contain its last batch, so digest is unknown
	s.holes = false
	s.updateStats(func(c *SubscriberStats) { c.Snapshots++; c.Next = a.state + 1 })
}

const (
	attempts   = 5  // attempts of a request before its batches count as lost
	healPauses = 50 // pause between later requests for all batches, in units of Retry
)

// requestRepeatedly requests all batches from a number on, with retries. If all attempts fail, requestRepeatedly sets
// holes.
func (s *Subscriber) requestRepeatedly(ctx context.Context, from uint64) (answer, bool) {
	for n, pause := 0, s.options.Retry/2; n < attempts && ctx.Err() == nil; n, pause = n+1, 2*pause {
		if n > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		if a, err := s.requestOnce(ctx, from); err == nil {
			return a, true
		}
	}
	s.holes = true
	return answer{}, false
}

// requestOnce makes one request. requestOnce returns only complete answers.
func (s *Subscriber) requestOnce(ctx context.Context, from uint64) (answer, error) {
	a, err := s.readAnswer(ctx, from)
	var limited *LimitError
	if errors.As(err, &limited) && s.options.Cut != nil {
		s.cutOff(err)
	}
	if err != nil && ctx.Err() == nil {
		s.updateStats(func(c *SubscriberStats) { c.Failures++ })
		s.warnAbout("%s: asked for batches from %d: %v", s.options.Replay, from, err)
	}
	return a, err
}

// maxAnswer limits the total size of the batches of an answer, in bytes.
const maxAnswer = 4 << 30

func (s *Subscriber) readAnswer(ctx context.Context, from uint64) (answer, error) {
	most := maxAnswer
	if s.options.Cut != nil {
		most = s.options.Limits.longestAnswer()
	}
	d, err := s.options.Dial.Dealer(ctx, s.options.Replay, s.options.Silence)
	if err != nil {
		return answer{}, err
	}
	defer d.Close()
	if err := d.Send(zmtp.Message{nil, encodeSequence(from)}); err != nil {
		return answer{}, err
	}
	var a answer
	for size := 0; ; {
		m, err := d.Receive()
		if err != nil {
			return answer{}, fmt.Errorf("after %d batches: %w", len(a.steps)+len(a.batches), err)
		}
		if len(m) == 4 { // layouts of vLLM 0.32 and later
			m = append(m[:1:1], m[2:]...)
		}
		if len(m) != 3 || len(m[1]) != 8 {
			return answer{}, fmt.Errorf("answer of %d frames, must be an empty one, perhaps a topic, a sequence number of 8 bytes and a batch", len(m))
		}
		n, payload := binary.BigEndian.Uint64(m[1]), m[2]
		if size += len(payload); size > most {
			return answer{}, &LimitError{"answer", fmt.Sprintf("it answers with more than %d bytes", most)}
		}
		switch {
		case len(payload) == 0:
			return a, nil
		case n == snapshotSequence && len(payload) == 8:
			a = answer{snapshot: true, state: binary.BigEndian.Uint64(payload)}
		case a.snapshot:
			s.addSnapshotBatch(&a, payload)
		default:
			a.steps = append(a.steps, step{n, payload})
		}
	}
}

// addSnapshotBatch decodes a batch of a snapshot, while the publisher prepares the next batch.
func (s *Subscriber) addSnapshotBatch(a *answer, payload []byte) {
	b, err := Decode(payload)
	if err != nil {
		s.updateStats(func(c *SubscriberStats) { c.Undecodable++ })
		s.warnAbout("snapshot after %d: %v", a.state, err)
		return
	}
	a.batches = append(a.batches, Received{Origin: Snapshot, Sequence: a.state, Batch: b, Bytes: len(payload)})
}
