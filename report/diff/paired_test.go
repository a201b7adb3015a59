package diff

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/router/policy"
)

// busySide runs 600 requests on some workers.
func busySide(t *testing.T, workers int) *Side {
	return side(t, func(s *replay.Spec) {
		s.Synthetic = loadgen.Synthetic{Requests: 600, Input: 2000, Output: 20, Interval: 12}
		s.Topology = s.Resize(workers)
	})
}

func findStat(t *testing.T, p *Paired, metric, statistic string) PairedStat {
	t.Helper()
	i := slices.IndexFunc(p.Metrics, func(m PairedStat) bool { return m.Metric == metric && m.Statistic == statistic })
	if i < 0 {
		t.Fatalf("no %s %s in %+v", statistic, metric, p.Metrics)
	}
	return p.Metrics[i]
}

// The statistics of the pairs equal the values of the reports. A run with fewer workers loses and a run with more
// workers wins, by the same interval with the opposite sign.
func TestPairedRuns(t *testing.T) {
	few, many := busySide(t, 1), busySide(t, 3)
	lost, won := Compare(many, few, Options{}).Requests.Paired, Compare(few, many, Options{}).Requests.Paired
	if lost == nil || lost.Pairs != 600 || lost.Stretch != 100 || lost.Resamples != 1000 || len(lost.Metrics) != 7 {
		t.Fatalf("%+v", lost)
	}
	numbers := few.Report.Numbers()
	for _, m := range lost.Metrics {
		key := strings.Replace(m.Statistic+"_"+m.Metric+"_ms", "e2e", "e2e_latency", 1)
		if want := numbers[key]; math.Abs(m.B-want) > 1e-9*want {
			t.Errorf("%s is %v, want %v of the report", key, m.B, want)
		}
		other := findStat(t, won, m.Metric, m.Statistic)
		if m.Low == nil || other.Low == nil || math.Abs(*m.Low+*other.High) > 1e-6 || !(*m.Low <= m.Change && m.Change <= *m.High) {
			t.Errorf("%+v and the other way %+v", m, other)
		}
	}
	if got := findStat(t, lost, "ttft", "mean").Verdict; got != Lose {
		t.Errorf("a third of the workers: %s, want lose", got)
	}
	if got := findStat(t, won, "ttft", "mean").Verdict; got != Win {
		t.Errorf("three times the workers: %s, want win", got)
	}
	var text strings.Builder
	if err := Compare(many, few, Options{}).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"B against A, of the 600 requests in both", "mean ttft", "p99 e2e", "lose"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("no %q in\n%s", part, &text)
		}
	}
}

// pairsOf returns pairs with TTFTs that differ by the given times.
func pairsOf(changes []float64) []pair {
	pairs := make([]pair, len(changes))
	for i, by := range changes {
		a := requests.Row{TTFT: 100, TPOT: requests.Unknown(), E2E: requests.MS(100 + by)}
		b := a
		b.TTFT += requests.MS(by)
		pairs[i] = pair{&a, &b}
	}
	return pairs
}

// Random differences are ties, except about 1 in 20, for independent requests and for neighbours that are late
// together.
func TestTiesAreTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, memory := range map[string]float64{"independent": 0, "in one queue": 0.8} {
		wrong := 0
		for range 100 {
			changes, at := make([]float64, 900), 0.0
			for i := range changes {
				at = memory*at + rng.NormFloat64()
				changes[i] = at
			}
			if v := comparePairs(pairsOf(changes)).Metrics[0].Verdict; v != Tie {
				wrong++
			}
		}
		if wrong > 14 {
			t.Errorf("%s: %d of 100 are no tie, want about 5", name, wrong)
		}
	}
}

// Few pairs give no interval. Means need fewer pairs than percentiles.
func TestTooFewPairs(t *testing.T) {
	for n, want := range map[int][2]Verdict{4: {TooFew, TooFew}, 40: {Lose, TooFew}, 400: {Lose, Lose}} {
		p := comparePairs(pairsOf(slices.Repeat([]float64{5}, n)))
		if got := [2]Verdict{p.Metrics[0].Verdict, p.Metrics[1].Verdict}; got != want {
			t.Errorf("%d pairs: %v, want %v", n, got, want)
		}
	}
	if p := comparePairs(nil); len(p.Metrics) != 0 {
		t.Errorf("no pairs: %+v", p)
	}
}

// A comparison of 200,000 pairs takes at most a few seconds.
func TestManyPairs(t *testing.T) {
	begin := time.Now()
	comparePairs(pairsOf(make([]float64, 200_000)))
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("%v", took)
	}
}

// The correlation time of independent values is 1. If each value is repeated n times, it is about n.
func TestCorrelationTime(t *testing.T) {
	rand := rand.New(rand.NewPCG(1, 2))
	draw := func(each int) []float64 {
		all := make([]float64, 0, 20_000)
		for len(all) < cap(all) {
			all = append(all, slices.Repeat([]float64{rand.NormFloat64()}, each)...)
		}
		return all
	}
	if time := correlationTime(draw(1)); time > 1.2 {
		t.Errorf("%v of independent values", time)
	}
	if time := correlationTime(draw(20)); time < 15 || time > 25 {
		t.Errorf("%v of values that hold for 20", time)
	}
}

// If the router draws random numbers, one seed gives intervals and no verdict.
func TestOneSeed(t *testing.T) {
	draws := func(s *replay.Spec) {
		s.Synthetic = loadgen.Synthetic{Requests: 300, Input: 2000, Output: 20, Interval: 30}
		s.Topology = s.Resize(3)
		s.Router = policy.Name("p2c")
	}
	a := side(t, draws)
	b := side(t, func(s *replay.Spec) { draws(s); s.Seed = 7 })
	if !a.Draws() || busySide(t, 2).Draws() {
		t.Fatal("p2c draws, and round robin does not")
	}
	for _, m := range Compare(a, b, Options{}).Requests.Paired.Metrics {
		if m.Low != nil && m.Verdict != OneSeed {
			t.Errorf("%s %s: %s, want no verdict", m.Statistic, m.Metric, m.Verdict)
		}
	}
}
