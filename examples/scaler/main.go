// This example changes the number of workers with a custom rule, and compares it with a fixed number and with HPA.
//
//	go run ./examples/scaler
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/replay-llm/replay/examples/internal/chat"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/router/policy"
)

// byRate requests one worker per PerWorker requests per second, and removes at most one worker at a time.
type byRate struct{ PerWorker float64 }

// Want is called at every tick. The signals are from the latest scrape that has arrived.
func (r byRate) Want(s *autoscale.Signals) int {
	return max(int(math.Ceil(s.Rate/r.PerWorker)), s.Workers-1)
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	hpa := autoscale.Default(autoscale.HPA)
	hpa.Min, hpa.Max = 2, 16
	hpa.Targets = []autoscale.Target{{Metric: autoscale.InFlight, Value: 8}}
	hpa.Down.Set, hpa.Down.Window = true, 60_000 // ms, as all times are
	hpa.Startup = autoscale.Ladder{Image: autoscale.Law{Mean: 10_000}, Weights: autoscale.Law{Mean: 15_000}, WarmUp: autoscale.Law{Mean: 5_000}}
	own := hpa
	own.Kind = autoscale.Custom // what it sees and how workers start stays

	fmt.Fprintln(out, "               mean TTFT   p99 TTFT   workers   worker-hours   changes")
	for _, r := range []struct {
		name      string
		workers   int
		autoscale *replay.Autoscale
		scaler    autoscale.Scaler
	}{
		{"8 workers", 8, nil, nil},
		{"HPA", 2, &hpa, nil},
		{"2.5 requests/s", 2, &own, byRate{2.5}},
	} {
		spec, err := chat.Spec(r.workers, 20)
		if err != nil {
			return err
		}
		spec.Router, spec.Autoscale = policy.KV, r.autoscale
		result, err := spec.Run(context.Background(), replay.Streams{Scaler: r.scaler})
		if err != nil {
			return err
		}
		x := result.Report
		mean, hours, changes := float64(r.workers), float64(r.workers)*x.DurationMS/3_600_000, 0
		if r.autoscale != nil {
			s := result.Scaling[0]
			u := s.Usage()
			mean, hours, changes = u.Mean, u.WorkerHours, len(s.Acts)
		}
		fmt.Fprintf(out, "%-14s %6.1f ms %7.0f ms %9.2f %14.3f %9d\n", r.name, x.TTFT.Mean, x.TTFT.P99, mean, hours, changes)
	}
	return nil
}
