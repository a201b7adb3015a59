package sweeps

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/saturation"
	"github.com/replay-llm/replay/report/slo"
)

// CellRunner replays cells. Cells with the same settings of a workload share one workload.
type CellRunner struct {
	Warn      func(string) // receives warnings about traces, from several goroutines; nil: no warnings
	EarlyStop bool         // stop a cell when it can no longer meet an objective
	Reader    options.CellReader
	open      runs.Recent[*openWorkload]
	samples   runs.Recent[*openWorkload] // resamples of the open workloads
}

// openWorkload is a workload that is opened once.
type openWorkload struct {
	load func() (*loadgen.Workload, error)
	// resampler returns a Resampler of the workload. The field is nil if the workload is a resample.
	resampler func() (*plan.Resampler, error)
}

// resamplingSeed is the seed of all cells, so that all cells use the same resamples.
const resamplingSeed = 42

// Run replays a cell and returns its report.
func (r *CellRunner) Run(ctx context.Context, cell *plan.Cell) (json.RawMessage, error) {
	o, file, mode, err := r.Reader.OptionsOf(cell.Settings)
	if err != nil {
		return nil, err
	}
	if file == "-" {
		return nil, cli.Usagef("trace=-: expected the name of a file")
	}
	spec, err := o.Spec(file, mode)
	if err != nil {
		return nil, err
	}
	w, err := r.openSample(ctx, spec, cell.Sample)
	if err != nil {
		return nil, err
	}
	streams := replay.Streams{Opened: func(replayed *loadgen.Workload) { w = replayed }}
	if r.EarlyStop && w.Source == nil && !spec.Recycle {
		streams.Stop = slo.NewStopper(o.Outputs.Slo.All, o.Outputs.Attainment, len(w.Turns)).Check
	}
	result, err := spec.RunOn(ctx, w, streams)
	if missed := (*slo.MissedError)(nil); errors.As(err, &missed) {
		return stoppedReport(missed, &spec)
	}
	if err != nil {
		return nil, runs.ExplainError(err)
	}
	if err := addHardware(result, &spec); err != nil {
		return nil, err
	}
	return cellReport(o, result, w, &spec)
}

// stoppedReport returns the report of a cell that was stopped: the missed objective and, without an autoscaler, the
// number of GPUs. The report has no latencies, because only a part of the workload was replayed.
func stoppedReport(missed *slo.MissedError, spec *replay.Spec) (json.RawMessage, error) {
	report := map[string]any{"num_requests": missed.Requests, "slo_met": false, plan.StoppedKey: missed.Error()}
	if !spec.Compat && len(spec.Scale) == 0 && !spec.Autoscales() {
		gpus, err := spec.GPUs()
		if err != nil {
			return nil, err
		}
		report[plan.GPUsKey] = gpus.Count
		if gpus.Name != "" {
			report[plan.GPUNameKey] = gpus.Name
		}
	}
	return json.Marshal(report)
}

// addHardware adds the number, name and hourly cost of the GPUs to a report. With an autoscaler, the number is the
// mean over the replay. With --scale addHardware adds nothing.
func addHardware(result *harness.Result, spec *replay.Spec) error {
	if spec.Compat || len(spec.Scale) > 0 {
		return nil
	}
	gpus, err := spec.GPUs()
	if err != nil {
		return err
	}
	count, perHour, priced := 0.0, 0.0, true
	for i := range spec.Pools {
		n, price, err := meanGPUs(result, &spec.Pools[i])
		if err != nil {
			return err
		}
		count, perHour, priced = count+n, perHour+price, priced && price > 0
	}
	number := collector.Of(plan.GPUsKey, count)
	if whole := int(count); float64(whole) == count {
		number = collector.Of(plan.GPUsKey, whole)
	}
	result.Report.Add(number)
	if gpus.Name != "" {
		result.Report.Add(collector.Of(plan.GPUNameKey, gpus.Name))
	}
	if priced {
		result.Report.Add(collector.Of(plan.CostPerHourKey, perHour))
	}
	return nil
}

// meanGPUs returns the mean number of GPUs of a pool over the replay, and their cost per hour. An unknown cost is 0.
func meanGPUs(result *harness.Result, p *engines.Pool) (count, perHour float64, err error) {
	const hour = 3_600_000
	for _, s := range result.Scaling {
		if s.Stage == p.Role && s.End > 0 {
			u := s.Usage()
			return u.GPUHours * hour / float64(s.End), u.Cost * hour / float64(s.End), nil
		}
	}
	gpus, err := p.OwnGPUs()
	return float64(gpus.Count), gpus.Price, err
}

// printWarnings prints the warnings of cells, each once. The error of a cell that cannot be run is reported when it is
// run.
func printWarnings(s cli.Streams, notes []cellNotes) {
	var all warnings
	for i := range notes {
		for _, warning := range notes[i].warnings {
			all.add(warning)
		}
	}
	all.print(s)
}

// cellReport returns the report of a cell as one line of JSON. The report includes the result of the objectives. In
// open loop, the report includes whether the cluster kept up.
func cellReport(o *options.Options, result *harness.Result, w *loadgen.Workload, spec *replay.Spec) (json.RawMessage, error) {
	var rows []requests.Row
	switch {
	case w.Classes != nil:
		rows = requests.Collect(result.Collector, runs.PlacesIn(w), nil, nil)
	case len(o.Outputs.Slo.All) > 0:
		rows = requests.Collect(result.Collector, nil, nil, nil)
	}
	if _, _, err := runs.Judge(&o.Outputs, w, rows, result); err != nil {
		return nil, err
	}
	if spec.Mode == loadgen.Trace && !spec.Compat {
		s := saturation.Of(result.Collector)
		result.Report.Add(s.Fields()[0])
	}
	var long, short bytes.Buffer
	if err := result.Report.WriteJSON(&long); err != nil {
		return nil, err
	}
	if err := json.Compact(&short, long.Bytes()); err != nil {
		return nil, err
	}
	return short.Bytes(), nil
}

// openSample returns a resample of the workload of spec, or the workload itself if sample is 0. The first call opens
// the workload.
func (r *CellRunner) openSample(ctx context.Context, spec replay.Spec, sample int) (*loadgen.Workload, error) {
	key := plan.WorkloadKey(&spec)
	w := r.open.Get(key, func() *openWorkload {
		load := sync.OnceValues(func() (*loadgen.Workload, error) {
			streams := replay.Streams{Stdin: strings.NewReader(""), Warn: r.Warn}
			if shared, err := runs.OpenShared(ctx, &spec, streams); err != nil || shared != nil {
				return shared, err
			}
			opened, err := spec.Open(context.WithoutCancel(ctx), streams)
			if err == nil {
				opened.ShareTrees()
			}
			return opened, err
		})
		return &openWorkload{load, sync.OnceValues(func() (*plan.Resampler, error) {
			w, err := load()
			if err != nil {
				return nil, err
			}
			return plan.NewResampler(w, resamplingSeed), nil
		})}
	})
	if sample == 0 {
		return w.load()
	}
	key += " resample " + strconv.Itoa(sample)
	return r.samples.Get(key, func() *openWorkload {
		return &openWorkload{load: sync.OnceValues(func() (*loadgen.Workload, error) {
			resampler, err := w.resampler()
			if err != nil {
				return nil, err
			}
			drawn := resampler.Sample(sample)
			drawn.ShareTrees()
			return drawn, nil
		})}
	}).load()
}
