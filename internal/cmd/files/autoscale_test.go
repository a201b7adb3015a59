package files

import (
	"strings"
	"testing"
)

// A file has an autoscaler for each pool and common keys. Invalid files are rejected.
func TestAutoscalePools(t *testing.T) {
	text := "cost: 3\nmetrics: [{metric: held, target: 2}]\nprefill: {max: 4}\ndecode:\n  min: 2\n  metrics: [{metric: running, target: 6}]\nsync: 20s\n"
	entry, decode, err := ParseAutoscale("a.yaml", []byte(text), true)
	if err != nil {
		t.Fatal(err)
	}
	if entry.Max != 4 || entry.Cost != 3 || entry.Sync != 20_000 || len(entry.Targets) != 1 || entry.Targets[0].Metric != "held" {
		t.Errorf("prefill: %+v", entry)
	}
	if decode.Min != 2 || decode.Max != 10 || decode.Sync != 20_000 || len(decode.Targets) != 1 || decode.Targets[0].Metric != "running" {
		t.Errorf("decode: %+v", decode)
	}
	if entry, decode, err := ParseAutoscale("a.yaml", []byte("decode: {metrics: [{metric: held, target: 2}]}"), true); err != nil || entry != nil || decode == nil {
		t.Errorf("decode alone: %v, %v, %v", entry, decode, err)
	}
	for _, c := range []struct {
		text string
		two  bool
		want string
	}{
		{text, false, "a.yaml:3: prefill: requires --prefill-workers"},
		{"min: 2\nmetrics: [{metric: held, target: 2}]", true, "a.yaml:1: an autoscaler of neither pool, must be prefill, decode or both"},
		{"prefil: {max: 4}", true, "prefil: no such key of autoscalers"},
		{"scaler: keda\ntriggers: [{metric: held, threshold: 1}]\nprefill: {scaler: hpa}", true, "a.yaml:2: triggers: requires scaler: keda"},
		{"decode: {max: 4}", true, "a.yaml:1: no metrics"},
		{"decode:\n  prefill: {max: 4}", true, "a.yaml:2: prefill: no such key of an autoscaler"},
		{"decode: 5", true, "a.yaml:1: must be an autoscaler"},
	} {
		if _, _, err := ParseAutoscale("a.yaml", []byte(c.text), c.two); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// Valid keys depend on the kind of scaler, at any position of the key scaler. Other keys are rejected.
func TestAutoscaleKinds(t *testing.T) {
	text := "metric: input_tokens_per_second\nper_worker: 9000\nstartup: {weights: {law: lognormal, median: 15s, sigma: 0.3}, image: 4s}\nscaler: rate\n"
	a, _, err := ParseAutoscale("a.yaml", []byte(text), false)
	if err != nil {
		t.Fatal(err)
	}
	if a.Load.PerWorker != 9000 || a.Startup.Weights.Median != 15_000 || a.Startup.Image.Mean != 4000 || a.Down.Window != 300_000 {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct{ text, want string }{
		{"scaler: kda", "a.yaml:1: scaler: kda: must be hpa, keda, rate, predict, dynamo-planner, rules, schedule, ratio, process or perfect, did you mean keda?"},
		{"scaler: rate\ntolerance: 0.1", "a.yaml:2: tolerance: requires scaler: hpa or keda"},
		{"scaler: rate\nper_worker: 2\nmetric: waiting", `a.yaml:1: metric "waiting", must be one of`},
		{"scaler: keda\ntriggers: [{metric: held, target: 2}]", "a.yaml:2: target: requires scaler: hpa"},
		{"metrics: [{metric: held, target: 2, activation: 1}]", "a.yaml:1: activation: requires scaler: keda"},
		{"min: 0\nmetrics: [{metric: waiting, target: 2}]", "a.yaml:1: there may be no worker and no metric sees requests without one"},
		{"metrics: [{metric: held, target: 2}]\nscale_up: {tolerance: 1.5}", "a.yaml:1: tolerance of a direction is 1.5, must be at least 0 and below 1"},
		{"scaler: rate\nper_worker: 2\nscale_up: {tolerance: 0.1}", "a.yaml:3: tolerance: requires scaler: hpa or keda"},
		{"scaler: keda\nmin: 2\nidle_replicas: 2\ntriggers: [{metric: held, threshold: 2}]", "a.yaml:1: idle_replicas is 2, must be at least 0 and below min, which is 2"},
		{"scaler: keda\nfallback: {replicas: -1}", "a.yaml:2: replicas: -1, must be 0 to 100000"},
		{"metrics: [{metric: held, target: 2}]\ndrain: {on_loss: lose}", "a.yaml:1: drain on_loss is \"lose\", must be one of [lose retry migrate], with a timeout"},
		{"drain: {timeout: 5s, on_loss: drop}", "a.yaml:1: on_loss: drop: must be lose, retry or migrate"},
		{"scaler: ratio", "a.yaml:1: ratio is 0, must be above 0"},
		{"ratio: 2", "a.yaml:1: ratio: requires scaler: ratio"},
		{"scaler: rules\nup: waiting > 4", "a.yaml:2: up: waiting > 4: it has a value for each worker"},
		{"scaler: rules\nwant: 'ceil(redy)'", "redy is unknown, did you mean ready?"},
		{"scaler: rules\nwant: held > 1", "a.yaml:2: want: held > 1:"},
		{"scaler: schedule\nslots: [{at: 5s}]", "a.yaml:2: must have at and workers"},
		{"scaler: predict\nin_flight: 8\npredictor: seasonal", "a period of 0 ms, must be 2 to 100000 times"},
		{"startup: {image: {law: exponential}}", "image: an exponential law has a mean above 0"},
		{"startup: {image: {mean: 3s}}", "image: must be a time, or a law as {law: exponential, mean: 20s}"},
		{"startup: {image: {law: uniform, min: 9s, max: 3s}}", "from 9000 to 3000 ms, expected min and max in order"},
		{"scrape: {jitter: 15s}\nmetrics: [{metric: held, target: 2}]", "late by up to 15000 ms, must be at least 0 ms and less than the 15000 ms between two"},
		{"scaler: process", "a.yaml:1: no program to ask, expected command, as command: python3 scaler.py"},
		{"scaler: process\ncommand: ' '", "a.yaml:1: no program to ask"},
		{"scaler: process\ncomand: x", "prefill or decode, did you mean command?"},
		{"scaler: process\ncommand: x\ntimeout: 5", "a.yaml:3: timeout: 5: must be a time of at least 1ms, as 10s"},
		{"scaler: process\ncommand: x\ntimeout: 10us", "a.yaml:3: timeout: 10us: must be a time of at least 1ms, as 10s"},
		{"scaler: process\ncommand: x\nwant: held", "a.yaml:3: want: requires scaler: rules"},
		{"metrics: [{metric: held, target: 2}]\ncommand: x", "a.yaml:2: command: requires scaler: process"},
		{"scaler: perfect\nper_worker: 3", "per_worker: requires scaler: rate or predict"},
	} {
		if _, _, err := ParseAutoscale("a.yaml", []byte(c.text), false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// Settings that Dynamo's planner rejects, and settings that are not simulated, are rejected with the line.
func TestPlannerIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"load_predictor: arima", "a.yaml:1: load_predictor arima is a library of Python: tools/dynamoplanner runs it as scaler: process"},
		{"load_predictor: mean", `a.yaml:1: load_predictor is "mean", must be one of [constant]`},
		{"min_endpoint: 0", "a.yaml:2: min_endpoint: 0, must be 1 to 100000"},
		{"optimization_target: cost", "a.yaml:2: optimization_target: cost: must be throughput, latency, load or sla"},
		{"optimization_target: sla\nenable_throughput_scaling: false", "a.yaml:1: enable_throughput_scaling and enable_load_scaling are both false: one must be true"},
		{"load_adjustment_interval_seconds: 7", "a.yaml:1: load_adjustment_interval_seconds is 7, must be a multiple of sync, which is 5s"},
		{"optimization_target: sla\nenable_load_scaling: true\nthroughput_adjustment_interval_seconds: 5", "must be below throughput_adjustment_interval_seconds, which is 5"},
		{"fpm_sample_bucket_size: 15", "a.yaml:1: fpm_sample_bucket_size is 15, must be a square, such as 16"},
		{"mode: both", "a.yaml:2: mode: both: must be agg, prefill, decode or disagg"},
		{"ttft_ms: 0", "a.yaml:1: ttft_ms is 0 and itl_ms 50, must be above 0"},
		{"metric: held", "a.yaml:2: metric: requires scaler: rate or predict"},
	} {
		_, _, err := ParseAutoscale("a.yaml", []byte("scaler: dynamo-planner\n"+c.text), false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, must have %s", c.text, err, c.want)
		}
	}
}
