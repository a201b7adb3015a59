package kvevents

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// Text is the tokens and the adapter of a stored block.
type Text struct {
	Tokens []uint32 // all tokens of the block
	LoRA   string   // name of the adapter; "": none
}

// TextOf returns the text of a stored block, or false if the text is unknown.
type TextOf func(scheduler.KVBlock) (Text, bool)

// EnqueueStep enqueues the events of one step of the engine, like Enqueue. In vLLM's layouts the events of a step are
// one batch, with the tokens of stored blocks. Blocks with unknown tokens are omitted and counted as dropped.
// EnqueueStep returns the number of dropped events.
func (t *Tee) EnqueueStep(events []scheduler.KVEvent, of TextOf) (dropped int) {
	if t.options.Layout == OwnLayout {
		return t.Enqueue(events)
	}
	var step []queued
	for i := range events {
		e := &events[i]
		if len(e.Stored) > 0 {
			q, ok := newStored(e, of)
			switch {
			case !ok:
				dropped++
			case len(step) > 0 && e.Continues && step[len(step)-1].isContinuedBy(&q):
				last := &step[len(step)-1]
				last.event.Stored = append(last.event.Stored, q.event.Stored...)
				last.tokens = append(last.tokens, q.tokens...)
			default:
				step = append(step, q)
			}
		}
		for _, h := range e.Removed {
			step = append(step, queued{event: scheduler.KVEvent{Removed: []uint64{h}, Rank: e.Rank, Tier: e.Tier}, more: true})
		}
	}
	t.mu.Lock()
	if dropped > 0 {
		t.countLost(&t.stats.Unknown, dropped, "events dropped, %d in all: the tokens of their blocks are unknown, of %d each", t.options.BlockTokens)
	}
	if n := len(step); n > 0 {
		step[n-1].more = false
		if t.closing || len(t.queue)+n > t.options.QueueEvents {
			t.countLost(&t.stats.QueueDropped, n, "events dropped, %d in all: more than %d wait to be published", t.options.QueueEvents)
			dropped += n
		} else {
			t.queue = append(t.queue, step...)
		}
	}
	t.mu.Unlock()
	t.wake.Ring()
	return dropped
}

// queued is an event that waits to be published.
type queued struct {
	event  scheduler.KVEvent
	tokens []uint32 // tokens of the stored blocks, in vLLM's layouts
	lora   string
	more   bool // the next event belongs to the same batch
}

// isContinuedBy reports whether next continues the last block of q.
func (q *queued) isContinuedBy(next *queued) bool {
	n := len(q.event.Stored)
	return n > 0 && next.event.HasParent && q.event.Stored[n-1].Seq == next.event.Parent && q.lora == next.lora
}

// newStored returns an event with the tokens of its blocks, and false if a block's tokens are unknown.
func newStored(e *scheduler.KVEvent, of TextOf) (queued, bool) {
	q := queued{event: *e, more: true}
	q.event.Stored, q.event.Removed = slices.Clone(e.Stored), nil
	for _, b := range e.Stored {
		text, ok := of(b)
		if !ok {
			return q, false
		}
		q.tokens, q.lora = append(q.tokens, text.Tokens...), text.LoRA
	}
	return q, true
}

// newStepEvent returns an event in vLLM's form.
func (t *Tee) newStepEvent(q *queued) Event {
	e := &q.event
	out := Event{Kind: Removed, Blocks: e.Removed, Medium: mediumName(e.Tier), HasGroup: true}
	if e.Tier == scheduler.Device {
		out.Medium = deviceName
	}
	if len(e.Stored) > 0 {
		out.Kind, out.Parent, out.HasParent, out.BlockTokens = Stored, e.Parent, e.HasParent, t.options.BlockTokens
		out.Tokens, out.LoRA, out.CacheKind = q.tokens, q.lora, "full_attention"
		for _, b := range e.Stored {
			out.Blocks = append(out.Blocks, b.Seq)
		}
	}
	return out
}

// takeStep removes the remaining events of a batch from the queue. first was already removed.
func (t *Tee) takeStep(first queued) []Event {
	events := []Event{t.newStepEvent(&first)}
	for more := first.more; more; {
		q, _, _ := t.nextEvent()
		events = append(events, t.newStepEvent(&q))
		more = q.more
	}
	return events
}

// publishStep sends a batch in vLLM's form.
func (t *Tee) publishStep(first queued) {
	events := t.takeStep(first)
	b := t.newBatch(first.event.Rank, events...)
	t.sendStep(vllmEncoder{t.options.Layout, t.options.HashBytes}.appendBatch(nil, &b))
}
