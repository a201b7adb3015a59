package main

import (
	"context"
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/autoscale"
)

// explain prints a minimal version of a differing case.
func (s *settings) explain(ctx context.Context, stdout io.Writer, seed uint64, c *scalerCase, d *difference) error {
	c, d = s.shrink(ctx, c, d)
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "seed %d: tick %d at %gs: %d workers here (%s), %d there (%s)\n  %s\n", seed, d.tick,
		float64(c.Ticks[d.tick].Now)/1000, d.own, d.why, d.oracle, d.because, text)
	return nil
}

// shrink removes the metrics, behaviors and ticks that a difference does not depend on.
func (s *settings) shrink(ctx context.Context, c *scalerCase, d *difference) (*scalerCase, *difference) {
	for again := true; again; {
		again = false
		for _, smaller := range c.simplify() {
			next, err := s.replay(ctx, smaller)
			if err == nil && next != nil {
				smaller.Ticks = smaller.Ticks[:next.tick+1]
				c, d, again = smaller, next, true
				break
			}
		}
	}
	return c, d
}

// replay passes the ticks of a case to both until the first difference, and returns the difference.
func (s *settings) replay(ctx context.Context, c *scalerCase) (d *difference, err error) {
	if err := c.Config.Check(); err != nil {
		return nil, err
	}
	own := autoscale.New(&c.Config)
	err = s.ask(ctx, &c.Config, func(oracle autoscale.Scaler) error {
		for i := range c.Ticks {
			if d, err = c.Ticks[i].compare(own, oracle, i); d != nil || err != nil {
				return err
			}
		}
		return nil
	})
	return d, err
}

// simplify returns slightly smaller versions of the case.
func (c *scalerCase) simplify() (all []*scalerCase) {
	with := func(change func(*scalerCase)) {
		next := *c
		next.Ticks = append([]tick(nil), c.Ticks...)
		change(&next)
		all = append(all, &next)
	}
	for n := len(c.Ticks) / 2; n > 0; n /= 2 {
		with(func(c *scalerCase) { c.cut(n) })
	}
	for i := range c.Config.Targets {
		with(func(c *scalerCase) {
			t := c.Config.Targets
			c.Config.Targets = append(append([]autoscale.Target(nil), t[:i]...), t[i+1:]...)
		})
	}
	plain := autoscale.Default(c.Config.Kind)
	if c.Config.Up.Set {
		with(func(c *scalerCase) { c.Config.Up = plain.Up })
	}
	if c.Config.Down.Set {
		with(func(c *scalerCase) { c.Config.Down = plain.Down })
	}
	return all
}

// cut removes the first n ticks.
func (c *scalerCase) cut(n int) {
	first := c.Ticks[0].Now - c.Ticks[n].Now
	c.Ticks = c.Ticks[n:]
	for i := range c.Ticks {
		t := &c.Ticks[i]
		t.Now += first
		if t.At != 0 {
			t.At = t.Now
		}
	}
}
