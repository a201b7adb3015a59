// Package planner has the scaling rules of the planner of Dynamo 1.6.1. The planner scales by the forward passes that
// workers report, and by the traffic (docs/rules/router.md "Dynamo's planner").
//
// The caller ticks a Planner in order of time. A Planner has no clock. Read config.go and planner.go,
// then load.go, throughput.go, and below these model.go, regression.go and budget.go.
package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler"
)

// Config has the keys of the planner's configuration. A nil pointer is a key that is not set.
type Config struct {
	// Mode is the set of planned pools; "": disagg if both pools have this scaler, otherwise the role of the workers.
	Mode   string `json:",omitempty" yaml:"mode" is:"planner mode" of:"dynamo-planner"`
	Target Target `yaml:"optimization_target" is:"optimization target" of:"dynamo-planner"`
	// Throughput and Load enable the two kinds of scaling of the target sla. Other targets scale by load.
	Throughput bool `yaml:"enable_throughput_scaling" of:"dynamo-planner"`
	Load       bool `yaml:"enable_load_scaling" of:"dynamo-planner"`

	ThroughputInterval int `yaml:"throughput_adjustment_interval_seconds" is:"1..86400" of:"dynamo-planner"`
	LoadInterval       int `yaml:"load_adjustment_interval_seconds" is:"1..86400" of:"dynamo-planner"`
	MaxStep            int `yaml:"max_throughput_scaling_replicas" is:"1..100000" of:"dynamo-planner"`

	MaxGPUBudget     int  `yaml:"max_gpu_budget" is:"-1..1000000" of:"dynamo-planner"` // -1: no limit
	MinGPUBudget     int  `yaml:"min_gpu_budget" is:"-1..1000000" of:"dynamo-planner"`
	MinEndpoint      int  `yaml:"min_endpoint" is:"1..100000" of:"dynamo-planner"`
	PrefillMin       *int `json:",omitempty" yaml:"prefill_min_endpoint" is:"1..100000" of:"dynamo-planner"`
	DecodeMin        *int `json:",omitempty" yaml:"decode_min_endpoint" is:"1..100000" of:"dynamo-planner"`
	PrefillEngineGPU *int `json:",omitempty" yaml:"prefill_engine_num_gpu" is:"1..100000" of:"dynamo-planner"` // GPUs of a worker
	DecodeEngineGPU  *int `json:",omitempty" yaml:"decode_engine_num_gpu" is:"1..100000" of:"dynamo-planner"`

	TTFT float64 `yaml:"ttft_ms" of:"dynamo-planner"` // objectives of the target sla
	ITL  float64 `yaml:"itl_ms" of:"dynamo-planner"`

	Predictor string `yaml:"load_predictor" of:"dynamo-planner"`

	Samples         int `yaml:"max_num_fpm_samples" is:"1..100000" of:"dynamo-planner"`
	Buckets         int `yaml:"fpm_sample_bucket_size" is:"1..10000" of:"dynamo-planner"`
	MinObservations int `yaml:"load_min_observations" is:"1..100000" of:"dynamo-planner"`
	Sensitivity     int `yaml:"load_scaling_down_sensitivity" is:"0..100" of:"dynamo-planner"`

	// Thresholds of the target load: queued prompt tokens of a worker, and percent of its KV cache.
	QueueUp   *int     `json:",omitempty" yaml:"prefill_scale_up_queue_tokens" of:"dynamo-planner"`
	QueueDown *int     `json:",omitempty" yaml:"prefill_scale_down_queue_tokens" of:"dynamo-planner"`
	KVUp      *float64 `json:",omitempty" yaml:"decode_scale_up_kv_rate" is:"0..100" of:"dynamo-planner"`
	KVDown    *float64 `json:",omitempty" yaml:"decode_scale_down_kv_rate" is:"0..100" of:"dynamo-planner"`
}

// Target is the goal of scaling.
type Target string

const (
	Throughput Target = "throughput" // scale up when KV caches or queues are full
	Latency    Target = "latency"    // scale up before the workers fill
	Load       Target = "load"       // by thresholds of the configuration
	SLA        Target = "sla"        // by objectives of TTFT and ITL
)

// Targets returns all targets.
func Targets() []Target { return []Target{Throughput, Latency, Load, SLA} }

// Modes returns all modes.
func Modes() []string { return []string{"agg", "prefill", "decode", Disagg} }

// Disagg is the mode in which a prefill and a decode pool are planned together.
const Disagg = "disagg"

// Plans reports whether the configuration applies to a mode. A configuration without a mode applies to all modes.
func (c *Config) Plans(mode string) bool { return c.Mode == "" || c.Mode == mode }

// checkMode returns an error if the mode does not match the role of the workers.
func (c *Config) checkMode(role scheduler.Role) error {
	own := map[scheduler.Role]string{scheduler.Aggregated: "agg", scheduler.Prefill: "prefill", scheduler.Decode: "decode"}[role]
	if c.Mode == "" || c.Mode == own || c.Mode == Disagg && role != scheduler.Aggregated {
		return nil
	}
	return excerpt.Errorf("mode is %q, must be %s for these workers", c.Mode, own)
}

// Constant is the predictor that returns the latest value.
const Constant = "constant"

// Predictors returns the built-in predictors.
func Predictors() []string { return []string{Constant} }

// Libraries returns the predictors that require Python libraries.
func Libraries() []string { return []string{"arima", "kalman", "prophet"} }

// Default returns the defaults of Dynamo, except the predictor: arima in Dynamo, constant here.
func Default() Config {
	return Config{
		Target: Throughput, Throughput: true, ThroughputInterval: 180, LoadInterval: 5, MaxStep: 8,
		MaxGPUBudget: 8, MinGPUBudget: -1, MinEndpoint: 1, TTFT: 500, ITL: 50, Predictor: Constant,
		Samples: 64, Buckets: 16, MinObservations: 5, Sensitivity: 80,
	}
}

// throughput reports whether the planner scales by traffic.
func (c *Config) throughput() bool { return c.Target == SLA && c.Throughput }

// load reports whether the planner scales by forward passes.
func (c *Config) load() bool { return c.Target != SLA || c.Load }

// Check returns an error for settings that Dynamo rejects, and for settings that are not simulated.
func (c *Config) Check(tick float64) error {
	switch root := int(math.Sqrt(float64(c.Buckets))); {
	case !slices.Contains(Targets(), c.Target):
		return excerpt.Errorf("optimization_target is %q, must be one of %v", c.Target, Targets())
	case slices.Contains(Libraries(), c.Predictor):
		return fmt.Errorf("load_predictor %s is a library of Python: tools/dynamoplanner runs it as scaler: process", c.Predictor)
	case !slices.Contains(Predictors(), c.Predictor):
		return excerpt.Errorf("load_predictor is %q, must be one of %v", c.Predictor, Predictors())
	case c.LoadInterval < 1 || c.ThroughputInterval < 1 || c.MaxStep < 1 || c.Samples < 1 || c.MinObservations < 1:
		return errors.New("intervals, max_throughput_scaling_replicas, max_num_fpm_samples and load_min_observations must be at least 1")
	case c.MinEndpoint < 1 || c.MinGPUBudget < -1 || c.MaxGPUBudget < -1:
		return errors.New("min_endpoint must be at least 1, and GPU budgets at least -1, which is no bound")
	case !(c.TTFT > 0 && c.ITL > 0):
		return fmt.Errorf("ttft_ms is %v and itl_ms %v, must be above 0", c.TTFT, c.ITL)
	case c.Sensitivity < 0 || c.Sensitivity > 100:
		return fmt.Errorf("load_scaling_down_sensitivity is %d, must be 0 to 100", c.Sensitivity)
	case c.Buckets < 1 || root*root != c.Buckets:
		return fmt.Errorf("fpm_sample_bucket_size is %d, must be a square, such as 16", c.Buckets)
	case !c.throughput() && !c.load():
		return errors.New("enable_throughput_scaling and enable_load_scaling are both false: one must be true")
	case c.throughput() && c.load() && c.LoadInterval >= c.ThroughputInterval:
		return fmt.Errorf("load_adjustment_interval_seconds is %d, must be below throughput_adjustment_interval_seconds, which is %d", c.LoadInterval, c.ThroughputInterval)
	}
	if err := c.checkInterval("load_adjustment_interval_seconds", c.LoadInterval, tick); err != nil {
		return err
	}
	if c.throughput() {
		return c.checkInterval("throughput_adjustment_interval_seconds", c.ThroughputInterval, tick)
	}
	return nil
}

// checkInterval returns an error if an interval is not a multiple of the tick, in seconds.
func (c *Config) checkInterval(name string, seconds int, tick float64) error {
	if n := float64(seconds) / tick; math.Abs(n-math.Round(n)) > 1e-9*n || n < 1-1e-9 {
		return fmt.Errorf("%s is %d, must be a multiple of sync, which is %gs", name, seconds, tick)
	}
	return nil
}

// checkThresholds returns an error if the target load has no thresholds for a pool.
func (c *Config) checkThresholds(prefill bool) error {
	switch {
	case c.Target != Load:
	case prefill && (c.QueueUp == nil || c.QueueDown == nil):
		return errors.New("optimization_target: load of prefill workers requires prefill_scale_up_queue_tokens and prefill_scale_down_queue_tokens")
	case prefill && *c.QueueUp <= *c.QueueDown:
		return fmt.Errorf("prefill_scale_up_queue_tokens is %d, must be above prefill_scale_down_queue_tokens, which is %d", *c.QueueUp, *c.QueueDown)
	case !prefill && (c.KVUp == nil || c.KVDown == nil):
		return errors.New("optimization_target: load requires decode_scale_up_kv_rate and decode_scale_down_kv_rate")
	case !prefill && *c.KVUp <= *c.KVDown:
		return fmt.Errorf("decode_scale_up_kv_rate is %v, must be above decode_scale_down_kv_rate, which is %v", *c.KVUp, *c.KVDown)
	}
	return nil
}

// least returns the minimum number of workers of a pool.
func (c *Config) least(prefill bool) int {
	own := c.DecodeMin
	if prefill {
		own = c.PrefillMin
	}
	if own != nil {
		return *own
	}
	return c.MinEndpoint
}
