package sglang

import (
	"github.com/replay-llm/replay/scheduler"
)

// planPass plans a pass from the current state: prompts if any can be computed, otherwise a decode pass.
func (c *Core) planPass(f *flight, p *scheduler.Pass) {
	if c.decoding.receivesKV() {
		c.ended, c.looked = c.ended[:0], false
		f.planned = c.planTokens(f, p)
		return
	}
	if c.tiers != nil {
		c.tiers.lookUpStorage(p.Start)
		c.tiers.noteDone(p.Start, f != c.next)
	}
	if c.partial != nil && !c.parked {
		c.pages.cachePages(c.partial)
		c.parked = true
	}
	c.mergePrompts()
	c.batch.noteEnding(c.batch.planned)
	defer func() { c.queue.counted.held = len(c.batch.running) > 0 }()
	if c.queue.defersPrompts() || !c.planPrompts(f, p) {
		f.planned = c.planTokens(f, p)
		return
	}
	f.planned = true
	c.queue.deferred = c.DecodeInterval
	for i := range f.batch {
		c.merging = append(c.merging, f.batch[i].visit)
	}
	if c.MixedChunk {
		c.batch.stopEnding()
		if len(c.batch.running) > 0 && !c.batch.isShort() {
			c.batch.addTokens(f)
			c.queue.counted.last += len(c.batch.running)
			c.mixed = true
		}
	}
	c.queue.counted.sum += c.queue.counted.last
}

// mergePrompts moves the requests completed by the latest prefill to the running requests. Other requests of the
// latest prefill release their slots. After a mixed pass, requests that decoded in the pass are moved behind the new
// requests.
func (c *Core) mergePrompts() {
	ahead := len(c.batch.running)
	if c.outbox.handsOver() { // no request runs on a prefill worker
		c.queue.full = false
		c.merging = c.merging[:0]
		return
	}
	if c.mixed {
		c.queue.full = false
		c.queue.counted.batch = c.queue.counted.last
		defer func() { c.mixed = false; c.batch.moveBehind(ahead) }()
	}
	for _, v := range c.merging {
		if v.isVoid() || v.request == c.partial {
			c.queue.full = false
		}
	}
	for _, v := range c.merging {
		if v.isVoid() || v.request == c.partial {
			continue
		}
		if len(c.batch.running) == 0 {
			c.queue.full = false
		}
		if !c.queue.counted.held {
			c.queue.counted.batch, c.queue.counted.held = c.queue.counted.last, true
		}
		c.batch.startRunning(v.request)
	}
	c.merging = c.merging[:0]
}

// planTokens plans a token for each running request and reports whether there is any work. planTokens removes
// requests with their last token in flight, and retracts requests if memory is short.
func (c *Core) planTokens(f *flight, p *scheduler.Pass) bool {
	c.batch.stopEnding()
	if len(c.batch.running) == 0 {
		c.queue.full = false
		return false
	}
	switch {
	case !c.batch.isShort():
		c.ratio.decay()
	case len(c.batch.ending) > 0:
		c.queue.full = false // the memory of ending requests is about to be released
		return false
	default:
		c.retractVictims(p)
		if len(c.batch.running) == 0 {
			return false
		}
	}
	c.queue.counted.sum += c.queue.counted.batch
	c.batch.addTokens(f)
	return true
}
