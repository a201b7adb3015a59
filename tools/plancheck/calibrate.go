package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// The share of plans at 90 % confidence that must meet the objectives, on systems with a known truth.
const (
	confidence = 0.9
	leastHeld  = 0.85
	mostHeld   = 0.95
)

// freshDraws is the number of new workloads that judge the plan of a system.
const freshDraws = 3

// system is a synthetic server and its load. The load is a random process of requests. The passes of the server are
// longer than in the model by a factor. A plan sees one draw of the process, and the model.
type system struct {
	model, gpu, slo string
	rate            float64 // mean requests per second
	burst           float64 // coefficient of variation of the gaps between arrivals
	input, output   float64 // median tokens of prompt and answer
	spread          float64 // sigma of the lognormal lengths
	requests        int
	factor          float64 // factor on the pass times of the model
}

// drawSystem returns the i-th system.
func drawSystem(i int) (*system, error) {
	r := sim.NewRand(20261127, "system "+strconv.Itoa(i))
	pick := func(n int) int { return r.IntN(n) }
	servers := [][2]string{{"llama-3.1-8b", "h100"}, {"qwen3-14b", "a100"}, {"mistral-small-24b", "h200"}, {"qwen3-8b", "h100"}}
	on := servers[pick(len(servers))]
	s := &system{
		model: on[0], gpu: on[1],
		slo:    []string{"p99:ttft=1s,p99:tpot=60ms", "p95:ttft=2s,mean:tpot=40ms", "p99:ttft=2s,p95:tpot=50ms"}[pick(3)],
		rate:   60 + 120*r.Float64(),
		burst:  []float64{1, 1.5, 2.5}[pick(3)],
		input:  600 + 2400*r.Float64(),
		output: 120 + 180*r.Float64(),
		spread: 0.3 + 0.6*r.Float64(),
	}
	s.requests = 1200 + pick(800)
	var err error
	s.factor, err = s.drawFactor(r)
	return s, err
}

// drawFactor draws the factor between the pass times of a real server and of the model. The distribution of the
// factor follows the errors of the published servers of the same class.
func (s *system) drawFactor(r *rand.Rand) (float64, error) {
	a := engineargs.Default()
	a.PassTimes = timing.ParseSource(fmt.Sprintf("silicon:%s/%s?engine=vllm-0.33", s.gpu, s.model))
	b, ok := engines.BandOf(&a)
	if !ok {
		return 0, fmt.Errorf("%s on %s: no band of published servers", s.model, s.gpu)
	}
	return factorAt(&b, r.NormFloat64()), nil
}

// factorAt returns the factor of pass times at z standard deviations from the median of a band. The ends of the band
// are its 10th and 90th percentiles.
func factorAt(b *accuracy.Band, z float64) float64 {
	const tenth = 1.2815515655446004
	centre, end := 1/(1+b.Median/100), 1/(1+b.Low/100)
	if z < 0 {
		end = 1 / (1 + b.High/100)
	}
	return centre * math.Exp(math.Abs(math.Log(end/centre))*z/tenth)
}

// writeTrace writes a draw of the workload.
func (s *system) writeTrace(path, name string) error {
	r := sim.NewRand(20261127, name)
	length := func(median float64) int {
		return max(1, int(math.Exp(math.Log(median)+s.spread*r.NormFloat64())))
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, "TIMESTAMP,ContextTokens,GeneratedTokens") // columns of the Azure traces
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range s.requests {
		fmt.Fprintf(&b, "%s,%d,%d\n", at.Format("2006-01-02 15:04:05.0000000"), min(length(s.input), 30000), min(length(s.output), 4000))
		at = at.Add(time.Duration(drawGap(r, s.burst) / s.rate * float64(time.Second)))
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

// drawGap draws a gap with mean 1 and a coefficient of variation of at least 1. drawGap mixes two exponential
// distributions with half of the load each.
func drawGap(r *rand.Rand, burst float64) float64 {
	p := (1 + math.Sqrt((burst*burst-1)/(burst*burst+1))) / 2
	if r.Float64() < p {
		return r.ExpFloat64() / (2 * p)
	}
	return r.ExpFloat64() / (2 * (1 - p))
}

// verdict is the result of the plan of a system.
type verdict struct {
	workers int // 0: no cluster is recommended
	held    int // number of new workloads for which the cluster meets the objectives
	chance  float64
}

// checkCalibration plans systems. checkCalibration counts the new workloads for which the recommended clusters meet
// the objectives.
func checkCalibration(n int, binary string, out io.Writer) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "plancheck")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if binary, err = stopwatch.Find(context.Background(), binary, dir); err != nil {
		return false, err
	}
	all := make([]verdict, n)
	err = plan.Each(context.Background(), n, runtime.NumCPU(), func(_ context.Context, i int) (err error) {
		all[i], err = checkSystem(i, binary, dir)
		return err
	})
	if err != nil {
		return false, err
	}
	planned, held, chance, sizes := 0, 0, 0.0, 0
	for _, v := range all {
		if v.workers > 0 {
			planned++
			held += v.held
			chance += v.chance
			sizes += v.workers
		}
	}
	if planned == 0 {
		return false, fmt.Errorf("none of %d systems has a plan", n)
	}
	share := float64(held) / float64(planned*freshDraws)
	slack := 0.0
	if planned < 200 { // add two standard errors, since few systems give a noisy share
		slack = 2 * math.Sqrt(confidence*(1-confidence)/float64(planned))
	}
	fmt.Fprintf(out, "%d systems, %d plans of %.0f%% (%.1f workers, %.1f%% of the resamples, on average): the cluster meets the objectives in %.1f%% of %d fresh draws, must be %.0f to %.0f%%\n",
		n, planned, 100*confidence, float64(sizes)/float64(planned), 100*chance/float64(planned), 100*share, planned*freshDraws, 100*(leastHeld-slack), 100*min(1, mostHeld+slack))
	return share >= leastHeld-slack && share <= mostHeld+slack, nil
}

// checkSystem plans a system and judges the recommended cluster by the true pass times.
func checkSystem(i int, binary, dir string) (v verdict, err error) {
	s, err := drawSystem(i)
	if err != nil {
		return v, err
	}
	trace := filepath.Join(dir, fmt.Sprintf("system-%d.csv", i))
	if err := s.writeTrace(trace, fmt.Sprintf("seen %d", i)); err != nil {
		return v, err
	}
	common := []string{trace, "--slo", s.slo, "--gpu", s.gpu, "--model", s.model, "--output", "json"}
	a, err := runPlan(binary, append([]string{"plan"}, append(common, "--vary", "none", "--confidence", fmt.Sprint(confidence), "--front=false", "--jobs", "1", "--max-workers", "96")...))
	if err != nil || a.Best == nil || a.Best.Confident == nil || !a.Best.Confident.Found {
		return v, err
	}
	v.workers, v.chance = a.Best.Confident.Workers, float64(a.Best.Confident.Met)/float64(max(1, a.Best.Resamples))
	for k := range freshDraws {
		if err := s.writeTrace(trace, fmt.Sprintf("truth %d of %d", k, i)); err != nil {
			return v, err
		}
		speeds := strings.Repeat(fmt.Sprintf(",%.6f", 1/s.factor), v.workers)[1:]
		ok, err := judgeTruth(binary, append([]string{"trace"}, append(common, "--workers", strconv.Itoa(v.workers), "--worker-speed", speeds)...))
		if err != nil {
			return v, err
		}
		if ok {
			v.held++
		}
	}
	return v, nil
}

// judgeTruth reports whether a replay meets its objectives without a queue that grows until the end, as in plans.
func judgeTruth(binary string, args []string) (bool, error) {
	var errs bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, &errs)
	}
	var report struct {
		Met        *bool `json:"slo_met"`
		Saturation string
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return false, err
	}
	if report.Met == nil {
		return false, fmt.Errorf("%s: the report has no slo_met", strings.Join(args, " "))
	}
	return *report.Met && report.Saturation != "overloaded", nil
}
