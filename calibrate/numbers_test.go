package calibrate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/scheduler/timing"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

// TestMeanAndQuantile checks that values that are NaN do not count.
func TestMeanAndQuantile(t *testing.T) {
	none := math.NaN()
	if got := measured.MeanOf([]float64{1, none, 3}); got != 2 {
		t.Errorf("mean of 1 and 3 is %v", got)
	}
	values := []float64{4, none, 2, 8}
	for _, c := range []struct{ q, want float64 }{{0, 2}, {0.25, 3}, {0.5, 4}, {0.75, 6}, {1, 8}} {
		if got := measured.QuantileOf(values, c.q); got != c.want {
			t.Errorf("quantile %v of 2, 4 and 8 is %v, want %v", c.q, got, c.want)
		}
	}
	if got := measured.QuantileOf([]float64{none}, 0.5); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

// pair returns two measured requests and a simulated outcome that is 5 % late. The second request has a single token.
func pair() (*Measured, *Outcome) {
	m := &Measured{Run: measured.Run{Requests: []measured.Request{
		{Arrival: 0, First: 1, Last: 3, Output: 5}, {Arrival: 1, First: 2, Last: 2, Output: 1},
	}}}
	return m, &Outcome{First: []float64{1.05, 2}, Last: []float64{3.15, 2}}
}

// TestLoss compares the loss with a value computed by hand. The loss has the robust errors of requests in twentieths,
// and the squared errors of the means in hundredths.
func TestLoss(t *testing.T) {
	m, out := pair()
	target := newTarget(m, []int{0, 1})
	if target.short != mostShort || target.mean != [3]float64{1, 0.5, 2} {
		t.Fatalf("short waits of %v s, means of %v", target.short, target.mean)
	}
	ttft := 0.05 / 1.15 / 0.05
	soft := func(r float64) float64 { return 2 * (math.Sqrt(1+r*r) - 1) }
	want := soft(ttft)/2 + 0.05*2.5*2.5 + soft(1) + 0.05*5*5 + soft(1)/2 + 0.05*3.75*3.75
	if got := target.loss(out); !near(got, want) {
		t.Errorf("the loss is %v, want %v", got, want)
	}
	misses := target.misses(out)
	for k, want := range []float64{0.025, 0.05, 0.0375} {
		if !near(misses[k], want) {
			t.Errorf("mean %d is off by %v, want %v", k, misses[k], want)
		}
	}
	if got := normOf([]float64{2, 3, 6}); got != 7 {
		t.Errorf("the norm of 2, 3, 6 is %v", got)
	}
	if short := newTarget(&Measured{Run: measured.Run{Requests: []measured.Request{{First: 0.1, Last: 1, Output: 2}}}}, []int{0}).short; short != 0.1 {
		t.Errorf("short waits of %v s where the median is 0.1", short)
	}
}

func TestJudge(t *testing.T) {
	m, out := pair()
	for i, want := range []Errors{
		{Metric: "TTFT", Requests: 2, Measured: 1, Mean: 0.025, P50: 0.025, P90: 0.045, P99: 0.0495, Each: 0.025},
		{Metric: "TPOT", Requests: 1, Measured: 0.5, Mean: 0.05, P50: 0.05, P90: 0.05, P99: 0.05, Each: 0.05},
		{Metric: "E2E", Requests: 2, Measured: 2, Mean: 0.0375, P50: 0.0375, P90: 2.935/2.8 - 1, P99: 3.1285/2.98 - 1, Each: 0.025},
	} {
		got := judgeOutcome(m, []int{0, 1}, out)[i]
		same := near(got.Mean, want.Mean) && near(got.P50, want.P50) && near(got.P90, want.P90) && near(got.P99, want.P99) && near(got.Each, want.Each)
		if !same || got.Metric != want.Metric || got.Requests != want.Requests || !near(got.Measured, want.Measured) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestSaturation checks that a wait of a quarter of a second counts as a wait. The first ten requests do not count if
// waits are short.
func TestSaturation(t *testing.T) {
	m := &Measured{}
	for i := range 13 {
		m.Requests = append(m.Requests, measured.Request{Arrival: float64(i), Scheduled: float64(i) + 0.1})
	}
	m.Requests[0].Scheduled, m.Requests[1].Scheduled, m.Requests[11].Scheduled = 0.25, math.NaN(), 11.249
	s := splitBySaturation(m, &Outcome{Scheduled: make([]float64, 13)})
	if !slices.Equal(s.quick, []int{10, 11, 12}) || !slices.Equal(s.slow, []int{0, 1}) {
		t.Errorf("admitted at once %v, queued %v", s.quick, s.slow)
	}
}

// TestSupposedSaturation checks a run with unknown instants of admission. Requests are unsaturated if a replay admits
// them at once and they were not held back before the server.
func TestSupposedSaturation(t *testing.T) {
	m, out := &Measured{}, &Outcome{}
	for i := range 40 {
		at := float64(i)
		m.Requests = append(m.Requests, measured.Request{Arrival: at, Scheduled: math.NaN(), First: at + 5})
		out.Scheduled = append(out.Scheduled, at+0.1)
	}
	out.Scheduled[20] += 0.2    // the request waits in the replay
	m.Requests[30].First += 0.7 // the request was held back
	s := splitBySaturation(m, out)
	if !slices.Equal(s.slow, []int{20, 30}) || len(s.quick) != 28 || s.nameOf("queued") != "queued as replayed" {
		t.Errorf("queued %v, at once %d of 40, named %q", s.slow, len(s.quick), s.nameOf("queued"))
	}
	if told := splitBySaturation(&Measured{Run: measured.Run{Requests: []measured.Request{{Arrival: 1, Scheduled: 1}}}}, out); told.nameOf("queued") != "queued" {
		t.Errorf("what the run tells is called %q", told.nameOf("queued"))
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		heldOut bool
		mean    float64
		want    bool
	}{{true, 0.05, true}, {true, -0.05, true}, {true, 0.0501, false}, {true, -0.0501, false}, {true, math.NaN(), false}, {false, 0, false}} {
		r := &Result{Checks: []Check{{HeldOut: false, Errors: []Errors{{Mean: 9}}}, {HeldOut: c.heldOut, Errors: []Errors{{Mean: c.mean}}}}}
		if got := r.Holds(); got != c.want {
			t.Errorf("held out %v with a mean off by %v: holds %v", c.heldOut, c.mean, got)
		}
	}
}

// TestDampedStep checks that a damped step reaches the minimum of a parabola, and that no parameter changes by more
// than 0.7.
func TestDampedStep(t *testing.T) {
	hessian := mat.NewSymDense(2, []float64{4, 0, 0, 1})
	for _, c := range []struct{ slope, damp, want float64 }{{2, 0, -0.5}, {2, 1, -0.25}, {40, 0, -0.7}, {-40, 0, 0.7}} {
		got := dampedStep([]float64{0, 1}, hessian, []float64{c.slope, 0}, c.damp)
		if len(got) != 2 || !near(got[0], c.want) || got[1] != 1 {
			t.Errorf("slope %v, damped by %v: %v, want %v and 1", c.slope, c.damp, got, c.want)
		}
	}
	if got := dampedStep([]float64{0}, mat.NewSymDense(1, []float64{-1}), []float64{1}, 0); got != nil {
		t.Errorf("on a ridge: %v, want none", got)
	}
}

// TestSandwich compares the spread of a parameter with a value computed by hand, for two requests in one block.
func TestSandwich(t *testing.T) {
	form := plainForms()[0]
	form.Fields = form.Fields[:1]
	ones := [][]float64{{1, 1, 1, 1, 1, 1}}
	got := sandwichSpreads(form, ones, []float64{1, 1, 0, 0, 0, 0}, 2)
	w := 1 / math.Sqrt2
	if want := 2 * w / (2*w + 4 + 2*spreadWeight); len(got) != 1 || got[0].Name != "weights_s" || !near(got[0].Share, want) {
		t.Errorf("%+v, want a spread of %v", got, want)
	}
	apart := make([]float64, 3*31)
	apart[0], apart[30] = 1, -1 // in two blocks, so they do not cancel out
	columns := [][]float64{slices.Repeat([]float64{1}, len(apart))}
	if got := sandwichSpreads(form, columns, apart, 31); !near(got[0].Share, math.Sqrt2*w/(2*w+91+31*spreadWeight)) {
		t.Errorf("in two blocks: %+v", got)
	}
}

// TestForms checks that forms have unique names, and that a point holds logarithms of factors on the start.
func TestForms(t *testing.T) {
	var names []string
	for _, f := range plainForms() {
		names = append(names, f.Name)
	}
	start := timing.Parameters{Weights: 1, Token: 2, Context: 3, Mixed: 4, Pair: 5, MixedBase: 6, Base: 7, Knee: 1, Graphs: []int{8}}
	more := plainForms()[1].extensions(&start)
	for _, f := range append(more, more[0].extensions(&start)...) {
		names = append(names, f.Name)
	}
	want := "roofline4-knee1 roofline4-knee2 roofline4-knee4 roofline5-pair-knee2 roofline5-mixed-knee2 roofline6-pair-mixed-knee2"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("forms are %s, want %s", got, want)
	}
	if all := more[0].extensions(&start)[0].extensions(&start); len(all) != 0 {
		t.Errorf("%d extensions of all parameters", len(all))
	}
	p := more[0].parametersAt(&start, []float64{0, math.Ln2, 0, -math.Ln2, 0})
	if got := fmt.Sprintf("%.3g", []float64{p.Weights, p.Token, p.Context, p.Mixed, p.Pair, p.MixedBase, p.Base}); got != "[1 4 3 2 5 0 0]" || p.Knee != 2 || len(p.Graphs) != 1 {
		t.Errorf("parameters %s, %+v", got, p)
	}
	all := []candidate{{point{loss: 2}, more[0]}, {point{loss: 1}, more[1]}, {point{loss: 1}, more[0]}}
	if got := leastLoss(all); got.form.Name != more[1].Name {
		t.Errorf("the least of them is %s", got.form.Name)
	}
}

// TestStart checks that the start is the server's own by its name, and a common one if the server is unknown.
func TestStart(t *testing.T) {
	h100 := measured.StartParameters(&measured.Settings{})
	s := &measured.Settings{Engine: timing.Engine{GPU: "H200", Model: "meta-llama/Llama-3.1-70B", TensorParallel: 2}, Graphs: []int{1}}
	got := measured.StartParameters(s)
	known, err := timing.ParseSource("roofline:h200/llama-3.1-70b?tp=2").Load()
	if err != nil {
		t.Fatal(err)
	}
	want := known.(*timing.Parameters)
	if got.Weights != 1.1*want.Weights || got.Token != want.Token || got.MixedBase != 0.1*want.Weights || len(got.Graphs) != 1 {
		t.Errorf("%+v, want those of %+v", got, want)
	}
	common, err := timing.ParseSource("roofline:h100/llama-3.1-8b").Load()
	if err != nil || h100.Weights != 1.1*common.(*timing.Parameters).Weights {
		t.Errorf("of an unknown server: %+v, want those of %+v", h100, common)
	}
}

// TestParts checks the held-out halves by their numbers of requests.
func TestParts(t *testing.T) {
	m := &Measured{Run: measured.Run{Requests: make([]measured.Request, 30)}}
	for i := range m.Requests {
		m.Requests[i].Arrival = float64(i) / 3
	}
	fitted, held := splitParts(m, 0.35) // 10.5 of 30 requests, rounded up
	var names []string
	for i := range fitted {
		names = append(names, fmt.Sprintf("%s (%d) and %s (%d)", fitted[i].name, len(fitted[i].chosen), held[i].name, len(held[i].chosen)))
	}
	if got := strings.Join(names, ", "); got != "all (30) and  (0), first 19 (19) and last 11 (11), last 19 (19) and first 11 (11)" {
		t.Errorf("parts: %s", got)
	}
	if held[1].chosen[0] != 19 || held[2].chosen[10] != 10 || fitted[2].chosen[0] != 11 {
		t.Errorf("parts begin elsewhere: %v", held)
	}
	if warm := fitted[0].withoutWarmUp(m); len(warm) != 24 || warm[0] != 6 {
		t.Errorf("what arrived from 2 s on: %v", warm)
	}
	few := part{chosen: fitted[0].chosen[:25]} // 19 of them arrive after 2 s
	if warm := few.withoutWarmUp(m); len(warm) != 25 {
		t.Errorf("%d requests are left, want all 25 where fewer than 20 came later", len(warm))
	}
	for _, c := range []struct {
		holdout float64
		want    string
	}{
		{-0.1, "holdout is -0.1, must be a share"}, {1, "holdout is 1, must be a share"}, {math.NaN(), "holdout is NaN"},
		{0.3, "holdout is 0.3 of 30 requests, must be at least 10 on both sides"}, {0.7, "must be at least 10 on both sides"},
	} {
		if _, err := Run(t.Context(), m, Options{Holdout: c.holdout}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
