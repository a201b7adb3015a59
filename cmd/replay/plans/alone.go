package plans

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/cmd/replay/ceilings"
	"github.com/replay-llm/replay/internal/cmd/choices"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/report/slo"
)

// measureAlone returns the times of each request of a variant if it runs alone on an idle engine that has cached
// every earlier prompt, with the pass times of a resample. No number of workers is faster.
func (r *planRunner) measureAlone(ctx context.Context, variant, sample int) (plan.Measure, error) {
	spec := r.choices[variant].spec
	if sample > 0 {
		spec = slowDown(spec, r.factors[variant][sample-1])
	}
	w := r.samples[variant][0]()
	result, w, err := ceilings.RunAlone(ctx, spec, w)
	if err != nil {
		return plan.Measure{}, err
	}
	return measureOf(result, w, r.flags)
}

// hopeless is the result that no number of workers meets the objectives.
type hopeless struct {
	alone  plan.Measure
	factor float64 // by which passes take longer
}

func (h *hopeless) Error() string {
	var parts []string
	for i := range h.alone.Values {
		if v := &h.alone.Values[i]; !v.Met {
			parts = append(parts, fmt.Sprintf("%s is %s (limit %s)", v.Name, formatTime(v.Value, v.Unit), formatTime(v.Limit, v.Unit)))
		}
	}
	times := ""
	if h.factor != 1 {
		times = fmt.Sprintf(" and passes take %s%%", formatFactor(h.factor))
	}
	return fmt.Sprintf("no number of workers helps: where each request runs alone, with all of its prefix cached%s, %s", times, strings.Join(parts, " and "))
}

// refuseHopeless drops the choices that meet the objectives with no number of workers. If these are all choices,
// refuseHopeless keeps them and returns the reason of the first.
func (f *planFlags) refuseHopeless(ctx context.Context, r *planRunner) (*hopeless, error) {
	refused := make([]*hopeless, len(r.choices))
	left := false
	for i := range r.choices {
		v := &r.choices[i].variant
		if v.Refused != nil {
			continue
		}
		h, known, err := f.findHopeless(ctx, r, i)
		if err != nil {
			return nil, err
		}
		refused[i] = h
		left = left || !known || h == nil
	}
	for i, h := range refused {
		switch {
		case h == nil:
		case left:
			r.choices[i].variant.Refused = h
		default:
			return h, nil
		}
	}
	return nil, nil
}

// refuseSearch returns the reason if no choice of a search meets the objectives with any number of workers, and
// leaves the nearest choice in the runner. refuseSearch returns nil if a choice may meet the objectives.
func (f *planFlags) refuseSearch(ctx context.Context, r *planRunner) (*hopeless, error) {
	order, kinds := []int(nil), map[string]bool{}
	for _, first := range []bool{true, false} { // of each kind of choice
		for i := range r.choices {
			v := &r.choices[i].variant
			if v.Refused == nil && kinds[v.Kind] != first {
				order = append(order, i)
			}
			if first {
				kinds[v.Kind] = true
			}
		}
	}
	// Routers have no choice if each request runs alone.
	seen := map[string]bool{}
	order = slices.DeleteFunc(order, func(i int) bool {
		var parts []string
		for _, s := range r.choices[i].settings {
			if s.Name != choices.Router {
				parts = append(parts, s.Name+"="+s.Value)
			}
		}
		key := strings.Join(parts, " ")
		defer func() { seen[key] = true }()
		return seen[key]
	})
	nearest := -1
	var least *hopeless
	for some, rest := order[:min(1, len(order))], order; len(some) > 0; some = rest[:min(atOnce, len(rest))] {
		rest = rest[len(some):]
		found, known := make([]*hopeless, len(some)), make([]bool, len(some))
		err := plan.Each(ctx, len(some), f.cores, func(ctx context.Context, k int) (err error) {
			found[k], known[k], err = f.findHopeless(ctx, r, some[k])
			return err
		})
		if err != nil {
			return nil, err
		}
		for k, h := range found {
			switch {
			case !known[k]:
			case h == nil:
				return nil, nil
			case least == nil || measureNearness(&h.alone) < measureNearness(&least.alone):
				least, nearest = h, some[k]
			}
		}
	}
	if least != nil {
		r.keep([]int{nearest})
	}
	return least, nil
}

// atOnce is the number of choices that are checked at once after the first choice, which usually may meet the
// objectives.
const atOnce = 2

// findHopeless returns the reason if no number of workers of a choice meets the objectives, nil if a number may. The
// second result reports whether this is known.
func (f *planFlags) findHopeless(ctx context.Context, r *planRunner, i int) (h *hopeless, known bool, err error) {
	c := &r.choices[i]
	if c.variant.Fixed.Size() > 0 || c.isMixed() || c.spec.Window.IsSet() || c.spec.Admission != nil || !f.boundsAlone() {
		return nil, false, nil
	}
	sample, factor := r.hardSample(), 1.0
	if sample > 0 {
		factor = r.factors[i][sample-1]
	}
	m, err := r.measureAlone(ctx, i, sample)
	if err != nil {
		return nil, false, ctx.Err() // the replay of the whole trace reports the reason
	}
	if m.Met {
		return nil, true, nil
	}
	return &hopeless{m, factor}, true, nil
}

// boundsAlone reports whether the times of requests that run alone are a bound for the objectives.
func (f *planFlags) boundsAlone() bool {
	return !slices.ContainsFunc(f.slo.All, func(o slo.Objective) bool { return o.Statistic == "min" })
}

// reachable holds the nearest objectives that a cluster meets.
type reachable struct {
	shape  plan.Shape
	met    int // resamples; 0 if there are none
	of     int
	limits []slo.Objective
}

// findReachable loosens the objectives until the nearest cluster meets them in the target share of resamples.
// findReachable returns nil if objectives are per request, or if the queue of the cluster grows to the end.
func (f *planFlags) findReachable(ctx context.Context, r *planRunner, found *plan.Plan, a *plan.Answer) (*reachable, error) {
	if slices.ContainsFunc(f.slo.All, func(o slo.Objective) bool { return o.Statistic == "" }) {
		return nil, nil
	}
	x := &reachable{shape: a.Shape, of: f.resamples, limits: slices.Clone(f.slo.All)}
	least := math.Inf(1)
	for i := range found.Measures {
		m := &found.Measures[i]
		if n := measureDistance(m); m.Variant == a.Variant && m.Load == 1 && m.Sample == 0 && (n < least || n == least && m.Shape.Size() < x.shape.Size()) {
			least, x.shape = n, m.Shape
		}
	}
	points := []plan.Point{{Variant: a.Variant, Shape: x.shape, Load: 1}}
	need := 1
	if f.resamples > 0 && f.confidence > 0 {
		points, need = nil, int(math.Ceil(f.confidence*float64(f.resamples)-1e-9))
		for k := range f.resamples {
			points = append(points, plan.Point{Variant: a.Variant, Shape: x.shape, Load: 1, Sample: k + 1})
		}
	}
	measures := make([]plan.Measure, len(points))
	err := plan.Each(ctx, len(points), f.cores, func(ctx context.Context, i int) (err error) {
		measures[i], err = r.run(ctx, points[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	sort.SliceStable(measures, func(i, j int) bool {
		return cmp.Compare(measureDistance(&measures[i]), measureDistance(&measures[j])) < 0
	})
	if x.of, x.met = len(points), need; points[0].Sample == 0 {
		x.of, x.met = 0, 0
	}
	for _, m := range measures[:need] {
		for k := range m.Values {
			o := &x.limits[k]
			if v := &m.Values[k]; v.Name == o.Name() && v.Value > o.LimitMS {
				o.LimitMS = roundUp(v.Value)
			}
		}
		if v := m.Saturation; v == "overloaded" {
			return nil, nil
		}
	}
	return x, nil
}

// measureDistance returns the distance of all objectives together from being met, 0 if all are met.
func measureDistance(m *plan.Measure) float64 {
	sum := 0.0
	for i := range m.Values {
		sum += math.Log(max(m.Values[i].Excess(), 1))
	}
	return math.Round(sum*1e9) / 1e9
}

// roundUp returns a value rounded up to three digits.
func roundUp(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return math.Ceil(v/unit) * unit
}

// flag returns the objectives as a value of --slo.
func (x *reachable) flag() string {
	var parts []string
	for i := range x.limits {
		o := &x.limits[i]
		name := o.Statistic + ":" + o.Metric
		if o.Class != "" {
			name = o.Class + ":" + name
		}
		parts = append(parts, name+"="+formatLimitFlag(o.LimitMS))
	}
	return strings.Join(parts, ",")
}

// describe returns the nearest objectives in words.
func (x *reachable) describe() string {
	text := fmt.Sprintf("Nearest objectives that %v %s: --slo %s", x.shape, inflectVerb(x.shape, "meets", "meet"), x.flag())
	if x.of > 0 {
		text += fmt.Sprintf(" (in %d of %d resamples)", x.met, x.of)
	}
	return text
}

// formatLimitFlag returns a limit in ms as a value of --slo.
func formatLimitFlag(ms float64) string {
	d := time.Duration(math.Round(ms * float64(time.Millisecond)))
	if d >= time.Second {
		return strconv.FormatFloat(d.Seconds(), 'g', 6, 64) + "s"
	}
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'g', 6, 64) + "ms"
}
