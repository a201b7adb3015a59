package autoscale

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/sim"
)

// Check returns an error for invalid settings.
func (c *Config) Check() error {
	switch {
	case c.Kind != Custom && !slices.Contains(Kinds(), c.Kind):
		return excerpt.Errorf("scaler %q, must be one of %v", c.Kind, Kinds())
	case c.Min < 1 && slices.Contains([]Kind{ByRate, Predict, Foreknown}, c.Kind):
		return fmt.Errorf("min is %d, must be at least 1 with scaler: %s, which does not count requests that wait for a first worker (hpa, keda, rules, schedule and process may go to none)", c.Min, c.Kind)
	case c.Min < 0 || c.Max < max(c.Min, 1) || c.Max > MostWorkers:
		return fmt.Errorf("%d to %d workers, must be at least 0 to at least 1, at most %d, in order", c.Min, c.Max, MostWorkers)
	case !isTime(c.Sync, leastInterval) || !isTime(c.Interval, leastInterval):
		return fmt.Errorf("ticks every %v ms and scrapes every %v ms, must be at least %v ms", float64(c.Sync), float64(c.Interval), float64(leastInterval))
	case !isTime(c.Delay, 0) || !isTime(c.RateWindow, 0):
		return fmt.Errorf("a delay of %v ms and rates over %v ms, must be at least 0 ms", float64(c.Delay), float64(c.RateWindow))
	case !isTime(c.Jitter, 0) || c.Jitter >= c.Interval:
		return fmt.Errorf("scrapes late by up to %v ms, must be at least 0 ms and less than the %v ms between two", float64(c.Jitter), float64(c.Interval))
	case !isTime(c.Drain, 0):
		return fmt.Errorf("drain timeout is %v ms, must be at least 0 ms", float64(c.Drain))
	case c.OnKill != "" && (c.Drain == 0 || !slices.Contains(Losses(), c.OnKill)):
		return excerpt.Errorf("drain on_loss is %q, must be one of %v, with a timeout", c.OnKill, Losses())
	case !isNumber(c.Cost):
		return fmt.Errorf("a worker costs %v in an hour, must be at least 0", c.Cost)
	}
	if err := c.Startup.check(); err != nil {
		return err
	}
	for _, b := range []*Behavior{&c.Up, &c.Down} {
		if err := b.check(); err != nil {
			return err
		}
	}
	return c.checkKind()
}

// Losses returns the possible outcomes of requests on a worker that is killed.
func Losses() []string { return []string{"lose", "retry", "migrate"} }

// checkKind returns an error for settings that are invalid for the kind of scaler.
func (c *Config) checkKind() error {
	switch c.Kind {
	case HPA, KEDA:
		return c.checkTargets()
	case ByRate, Predict, Foreknown:
		return c.checkLoad()
	case ByRules:
		return c.Rules.check()
	case BySlots:
		return c.checkSlots()
	case ByRatio:
		if !isNumber(c.Ratio) || c.Ratio == 0 {
			return fmt.Errorf("ratio is %v, must be above 0, as ratio: 0.5 for one worker for two of the other pool", c.Ratio)
		}
	case ByProgram:
		return c.Program.check()
	case DynamoPlanner:
		return c.checkPlanner()
	}
	return nil
}

// checkTargets returns an error for invalid metrics of HPA and KEDA.
func (c *Config) checkTargets() error {
	switch {
	case len(c.Targets) == 0 && c.Kind == KEDA:
		return errors.New("no triggers, must be at least one, as {metric: held, threshold: 4}")
	case len(c.Targets) == 0:
		return errors.New("no metrics, must be at least one, as {metric: waiting, target: 4}")
	case !isNumber(c.Tolerance) || c.Tolerance >= 1:
		return fmt.Errorf("tolerance is %v, must be at least 0 and below 1", c.Tolerance)
	case c.Kind == KEDA && (!isTime(c.Polling, leastInterval) || !isTime(c.Cooldown, 0)):
		return fmt.Errorf("polls every %v ms with a cooldown of %v ms, must be at least %v ms and 0 ms", float64(c.Polling), float64(c.Cooldown), float64(leastInterval))
	}
	if c.Idle != nil && (*c.Idle < 0 || *c.Idle >= c.Min) {
		return fmt.Errorf("idle_replicas is %d, must be at least 0 and below min, which is %d", *c.Idle, c.Min)
	}
	if f := c.Fallback; f != nil && (f.Failures < 0 || f.Workers < 0 || f.Workers > MostWorkers) {
		return fmt.Errorf("fallback to %d workers after %d failures, must be at least 0, at most %d workers", f.Workers, f.Failures, MostWorkers)
	}
	awake := c.least() > 0
	for _, t := range c.Targets {
		if !slices.Contains(Metrics(), t.Metric) || !isNumber(t.Value) || t.Value == 0 || !isNumber(t.Activation) {
			return excerpt.Errorf("metric %q with target %v, must be one of %v and a target above 0", t.Metric, t.Value, Metrics())
		}
		awake = awake || slices.Contains([]Metric{Held, Rate, InputRate}, t.Metric)
	}
	if !awake {
		return fmt.Errorf("there may be no worker and no metric sees requests without one, expected min: 1 or a metric of %s, %s or %s", Held, Rate, InputRate)
	}
	return nil
}

// checkLoad returns an error for an invalid load of a worker.
func (c *Config) checkLoad() error {
	l := c.Load
	switch {
	case !isNumber(l.PerWorker) || !isNumber(l.InFlight) || !isNumber(l.Headroom):
		return fmt.Errorf("a worker takes %v, or %v in flight, with head room of %v, must be at least 0", l.PerWorker, l.InFlight, l.Headroom)
	case c.Kind == Foreknown:
		return nil
	case !slices.Contains(Rates(), l.Metric):
		return excerpt.Errorf("metric %q, must be one of %v", l.Metric, Rates())
	case c.Kind == ByRate && l.PerWorker == 0:
		return fmt.Errorf("the load of a worker is missing, must be per_worker, as per_worker: 2.5 of %s", l.Metric)
	case c.Kind == Predict && (l.PerWorker > 0) == (l.InFlight > 0):
		return fmt.Errorf("the load of a worker: must be either per_worker, as per_worker: 2.5 of %s, or in_flight, as in_flight: 8, to measure it", l.Metric)
	case l.InFlight > 0 && l.Metric != Rate:
		return fmt.Errorf("in_flight with metric %s, must be %s, for which the load of a worker is measured", l.Metric, Rate)
	case c.Kind == Predict:
		return c.checkForecast()
	}
	return nil
}

// mostTicks is the maximum number of ticks of a season, of a window and of a horizon.
const mostTicks = 100_000

func (c *Config) checkForecast() error {
	f := c.Forecast
	season := f.Predictor == Seasonal || f.Predictor == HoltWinters
	switch {
	case !slices.Contains(Predictors(), f.Predictor):
		return excerpt.Errorf("predictor %q, must be one of %v", f.Predictor, Predictors())
	case f.Window < 2 || f.Window > mostTicks:
		return fmt.Errorf("a window of %d ticks, must be 2 to %d", f.Window, mostTicks)
	case !isTime(f.Horizon, 0) || f.Horizon > mostTicks*c.Sync:
		return fmt.Errorf("a horizon of %v ms, must be 0 ms to %d ticks", float64(f.Horizon), mostTicks)
	case season && (!(f.Period >= 2*c.Sync) || f.Period > mostTicks*c.Sync || math.Mod(float64(f.Period), float64(c.Sync)) != 0):
		return fmt.Errorf("a period of %v ms, must be 2 to %d times the %v ms of sync", float64(f.Period), mostTicks, float64(c.Sync))
	case !season && f.Period != 0:
		return fmt.Errorf("a period with predictor: %s, must be %s or %s", f.Predictor, Seasonal, HoltWinters)
	case !isShare(f.Level) || !isShare(f.Trend) || !isShare(f.Season):
		return fmt.Errorf("smoothing of %v, %v and %v, must be 0 to 1", f.Level, f.Trend, f.Season)
	}
	return nil
}

func (c *Config) checkSlots() error {
	if len(c.Slots) == 0 {
		return errors.New("no slots, must be at least one, as {at: 60s, workers: 4}")
	}
	last := sim.Time(-1)
	for _, s := range c.Slots {
		switch {
		case !isTime(s.At, 0) || s.At <= last:
			return fmt.Errorf("a slot at %v ms, expected instants >= 0 in order", float64(s.At))
		case c.Every > 0 && s.At >= c.Every:
			return fmt.Errorf("a slot at %v ms, expected one before the end of the %v ms of every", float64(s.At), float64(c.Every))
		case s.Workers < c.Min || s.Workers > c.Max:
			return fmt.Errorf("a slot with %d workers, must be %d to %d, as min and max have them", s.Workers, c.Min, c.Max)
		}
		last = s.At
	}
	if !isTime(c.Every, 0) {
		return fmt.Errorf("every is %v ms, must be at least 0 ms", float64(c.Every))
	}
	return nil
}

func (b *Behavior) check() error {
	if !isTime(b.Window, 0) {
		return fmt.Errorf("a window of %v ms, must be at least 0 ms", float64(b.Window))
	}
	if x := b.Tolerance; x != nil && (!isNumber(*x) || *x >= 1) {
		return fmt.Errorf("tolerance of a direction is %v, must be at least 0 and below 1", *x)
	}
	for _, p := range b.Policies {
		if !isTime(p.Period, 1) || p.Workers < 0 || !isNumber(p.Percent) || (p.Workers > 0) == (p.Percent > 0) {
			return fmt.Errorf("a policy of %d workers and %v percent in %v ms, expected workers or percent above 0, and a period", p.Workers, p.Percent, float64(p.Period))
		}
	}
	return nil
}

// isTime reports whether t is finite and at least least.
func isTime(t, least sim.Time) bool { return t >= least && !math.IsInf(float64(t), 0) }

// isNumber reports whether x is finite and not negative.
func isNumber(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }

func isShare(x float64) bool { return x >= 0 && x <= 1 }
