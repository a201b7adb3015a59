package autoscale

import (
	"fmt"
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// Fallback is what KEDA's triggers count as when they cannot be read.
type Fallback struct {
	Failures int `yaml:"failure_threshold"`       // reads that fail one after the other until then
	Workers  int `yaml:"replicas" is:"0..100000"` // that each trigger asks for then
}

// keda scales as KEDA 2.21 does: HPA changes the number from one worker on by the sums of metrics,
// then, at each poll, KEDA goes to no worker and back by whether a trigger is active
// (docs/autoscaling.md, KEDA).
type keda struct {
	governor
	reason
	poll   sim.Time // when triggers are polled next
	active sim.Time // when one was active at a poll, last
	begun  bool
	failed int // reads of triggers that failed since one did not
}

// Want returns the number of workers.
func (k *keda) Want(s *Signals) int {
	if k.begin(s); !k.begun {
		k.begun, k.poll, k.active = true, s.Now, sim.Time(math.Inf(-1))
	}
	to := k.rescale(s)
	if s.Now < k.poll {
		return to
	}
	for k.poll <= s.Now {
		k.poll += k.c.Polling
	}
	return k.activate(s, to)
}

// rescale returns the number of workers that HPA wants, which leaves a pool without workers alone.
func (k *keda) rescale(s *Signals) int {
	least := max(k.c.Min, 1)
	if s.Workers == 0 {
		k.why = "no trigger is active"
		return 0
	}
	if to, ok := k.bound(s, least); ok {
		k.why = fmt.Sprintf("%d workers are outside %d to %d", s.Workers, least, k.c.Max)
		return to
	}
	known := k.read(s)
	if !known && !k.fallsBack() {
		k.why = "nothing has been read"
		return s.Workers
	}
	n := 0
	for i, t := range k.c.Targets {
		want, why := k.recommend(s, t, known)
		if want > n || i == 0 {
			n, k.why = want, why
		}
	}
	to, held := k.govern(s, n, least)
	k.why += held
	return to
}

// read reads the triggers, and reports whether that succeeds.
func (k *keda) read(s *Signals) bool {
	if k.failed++; s.At > 0 {
		k.failed = 0
	}
	return s.At > 0
}

// fallsBack reports whether reads have failed for so long that triggers count as in Fallback.
func (k *keda) fallsBack() bool { return k.c.Fallback != nil && k.failed > k.c.Fallback.Failures }

// recommend returns the number of workers that a trigger asks for, and why.
func (k *keda) recommend(s *Signals, t Target, known bool) (int, string) {
	target := max(roundMilli(t.Value), 1)
	if !known {
		f := k.c.Fallback.Workers
		n := k.c.averageValue(int64(float64(target)*float64(f)), target, s.Workers)
		return n, fmt.Sprintf("%s could not be read %d times, fallback %d: %d", t.Metric, k.failed, f, n)
	}
	n := k.c.averageValue(roundMilli(s.Sum(t.Metric)), target, s.Workers)
	return n, fmt.Sprintf("%s is %.4g, threshold %.4g: %d", t.Metric, s.Sum(t.Metric), t.Value, n)
}

// activate polls the triggers where HPA wants a number of workers. It goes from none to the least if one is
// active, and back once none has been for long enough.
func (k *keda) activate(s *Signals, to int) int {
	c, ok := k.c, k.read(s)
	why := fmt.Sprintf("triggers could not be read %d times", k.failed)
	active := k.fallsBack()
	for _, t := range c.Targets {
		if total := s.Sum(t.Metric); ok && total > t.Activation {
			active, why = true, fmt.Sprintf("%s is %.4g, above its activation of %.4g", t.Metric, total, t.Activation)
			break
		}
	}
	switch {
	case active:
		if k.active = s.Now; to == 0 {
			k.why = why
			return max(c.Min, 1)
		}
	case !ok && (c.Fallback == nil || c.Fallback.Workers > 0): // waits for a trigger that can be read
	case c.Idle != nil && to > *c.Idle || to > 0 && c.Min == 0:
		if idle := s.Now - k.active; idle >= c.Cooldown {
			k.why = "no trigger has been active"
			if !math.IsInf(float64(idle), 0) {
				k.why = fmt.Sprintf("no trigger has been active for %gs", float64(idle)/1000)
			}
			return c.least()
		}
	case c.Idle == nil && to < c.Min:
		k.why = "fewer workers than min"
		return c.Min
	}
	return to
}

// least returns the fewest workers that the scaler may want.
func (c *Config) least() int {
	if c.Idle != nil {
		return *c.Idle
	}
	return c.Min
}

// Bound returns the number nearest to n that the file allows.
func (c *Config) Bound(n int) int { return min(max(n, c.least()), c.Max) }

// roundMilli returns a value in whole thousandths, rounded to the nearest decimal, as KEDA writes it.
func roundMilli(x float64) int64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(min(x, math.MaxInt32), 'f', 3, 64), 64)
	return int64(math.Round(y * 1000))
}
