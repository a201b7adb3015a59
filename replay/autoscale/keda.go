package autoscale

import (
	"fmt"
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// Fallback is the result of KEDA's triggers if they cannot be read.
type Fallback struct {
	Failures int `yaml:"failure_threshold"`       // consecutive failed reads before the fallback
	Workers  int `yaml:"replicas" is:"0..100000"` // workers that each trigger then requests
}

// keda scales like KEDA 2.21. HPA changes the number from one worker on, by the sums of metrics. At each poll, KEDA
// scales to zero and from zero, depending on active triggers (docs/autoscaling.md, KEDA).
type keda struct {
	governor
	reason
	poll   sim.Time // time of the next poll
	active sim.Time // time of the latest poll with an active trigger
	begun  bool
	failed int // consecutive failed reads of triggers
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

// rescale returns the number of workers that HPA requests. rescale does not change a pool without workers.
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

// read reads the triggers and reports success.
func (k *keda) read(s *Signals) bool {
	if k.failed++; s.At > 0 {
		k.failed = 0
	}
	return s.At > 0
}

// fallsBack reports whether more reads have failed than Fallback allows.
func (k *keda) fallsBack() bool { return k.c.Fallback != nil && k.failed > k.c.Fallback.Failures }

// recommend returns the number of workers that a trigger requests, and the reason.
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

// activate polls the triggers, given the number that HPA requests. activate scales from zero to the minimum if a
// trigger is active, and to zero after the cooldown without an active trigger.
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
	case !ok && (c.Fallback == nil || c.Fallback.Workers > 0): // wait until a trigger can be read
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

// least returns the minimum number of workers that the scaler may request.
func (c *Config) least() int {
	if c.Idle != nil {
		return *c.Idle
	}
	return c.Min
}

// Bound returns n limited to the bounds of the file.
func (c *Config) Bound(n int) int { return min(max(n, c.least()), c.Max) }

// roundMilli returns a value in thousandths, rounded to the nearest decimal number like KEDA.
func roundMilli(x float64) int64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(min(x, math.MaxInt32), 'f', 3, 64), 64)
	return int64(math.Round(y * 1000))
}
