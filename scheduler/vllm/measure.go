package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// setEnd sets the end of the pass, and for observers the part of its duration for prompts.
func (c *Core) setEnd(step *timing.Step, p *scheduler.Pass) error {
	clock := &c.cfg.Clock
	if c.idle {
		p.End = max(p.Start, c.drafts.awake) // waiting for a transfer takes no time here if the engine does not sleep
		if p.Detail != nil {
			p.Detail.PrefillEnd = p.Start
		}
		return nil
	}
	if !c.rules.MixedStep {
		prefill, decode, err := clock.Apart(step)
		decode += float64(c.warmUp(p.Start))
		setNanos(prefill+decode, p)
		end := p.Start + sim.Time(prefill)
		if p.Detail != nil {
			p.Detail.PrefillEnd = end
		}
		p.End = end + sim.Time(decode)
		return err
	}
	ms, err := clock.Step(step)
	if err != nil {
		return err
	}
	ms += float64(c.warmUp(p.Start))
	p.End = p.Start + sim.Time(ms)
	setNanos(ms, p)
	if p.Detail == nil {
		return nil
	}
	// The prompt part is the duration of the pass, minus the duration that only its decodes would take.
	p.Detail.PrefillEnd = p.Start
	if step.Mixed() {
		var without float64
		without, err = clock.StepDecodes(step)
		p.Detail.PrefillEnd = max(p.Start, p.End-sim.Time(without))
	}
	return err
}

// setNanos records the duration of the pass, ms, in ns.
func setNanos(ms float64, p *scheduler.Pass) {
	if n, ok := timing.InNanos(ms); ok {
		p.Nanos = append(p.Nanos, n)
	}
}

// activeTokens returns the capacity of the held blocks in tokens.
func (c *Core) activeTokens() int { return c.supply.held() << c.shift }

// measurePass computes the work of a pass.
func (c *Core) measurePass(f *flight) timing.Step {
	s := timing.Step{Active: c.activeTokens(), Capacity: c.cfg.Blocks << c.shift}
	if n := c.calm.count; n > 0 {
		context := c.calm.targets + int64(n)*c.plans
		s.Tokens, s.Requests, s.Readers, s.Decodes = n, n, n, n
		s.Context, s.DecodeLength = context, int(context)
	}
	for i := range f.shares {
		if x := &f.shares[i]; !x.dropped {
			c.addShare(&s, x)
		}
	}
	if s.Requests > 0 {
		s.Drafts = c.drafts.draftsAfter(f)
	}
	if c.cfg.Role == scheduler.Prefill && !c.rules.MixedStep {
		s.Decodes, s.DecodeLength = 0, 0
	}
	return s
}

// addShare adds the work of one request in a pass.
func (c *Core) addShare(s *timing.Step, x *share) {
	decodeRole, counted := c.cfg.Role == scheduler.Decode && !c.cfg.Pull, !c.rules.FirstTokenFree
	if !c.rules.WholeAllocation && x.samples && int(x.target)&c.mask == 0 {
		s.Active -= c.cfg.BlockTokens // exclude the block of the sampled token
	}
	input := int32(c.requests[x.slot].input)
	handed := decodeRole && !c.requests[x.slot].local // the KV cache of the prompt came over the network
	switch {
	case x.tokens == 0 || x.tokens-x.drafts == 1 && (x.before >= input || c.rules.MixedStep && !handed && c.cfg.Clock.TimesWhole()):
		addDecode(s, x)
	case handed:
		if x.samples {
			addDecode(s, x)
		}
	default:
		s.AddChunk(int(x.tokens), int(x.before), int(input))
		if x.samples && counted {
			s.Decodes++
			s.Readers++
			s.DecodeLength += int(x.target)
			s.Context += int64(x.target)
		}
	}
}

// addDecode adds a request that computes one token of its answer. By vLLM's own rules, it may also be one token of
// its prompt. An engine runs the decode kernels for a single token.
func addDecode(s *timing.Step, x *share) {
	reached := int(x.before + x.tokens)
	if x.tokens == 0 {
		reached = int(x.target)
	}
	s.AddDecode(1+int(x.drafts), reached)
}

// SetClock sets the clock of later passes.
func (c *Core) SetClock(clock timing.Clock) { c.cfg.Clock = clock }
