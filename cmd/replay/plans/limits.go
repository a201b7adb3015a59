package plans

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/limits"
	"github.com/replay-llm/replay/report/requests"
)

// watched is a replay of a point that keeps a ledger of each request.
type watched struct {
	measure plan.Measure
	watch   *limits.Watch
	rows    []requests.Row
}

// begin returns the observer of a replay of spec.
func (w *watched) begin(spec *replay.Spec, requests int) (harness.Observer, error) {
	book, err := runs.NewBook(spec, nil)
	if err != nil {
		return nil, err
	}
	book.Grow(requests)
	var stages []*engineargs.Args
	for i := range spec.Pools {
		stages = append(stages, &spec.Pools[i].Engine)
		if len(spec.Pools[i].Mix) > 0 {
			stages[i] = nil
		}
	}
	w.watch = limits.NewWatch(book, spec.Window, stages...)
	return w.watch, nil
}

// end stores the outcomes of the requests.
func (w *watched) end(result *harness.Result, workload *loadgen.Workload) {
	w.rows = requests.Collect(result.Collector, runs.PlacesIn(workload), nil, w.watch.Book)
}

// watchPoint replays a point as run does, and returns the ledgers of its requests. With --survive these are the
// ledgers of the worst failure.
func (r *planRunner) watchPoint(ctx context.Context, p plan.Point) (*watched, error) {
	whole := r.choices[p.Variant].clusterOf(p.Shape)
	clusters := []*engines.Topology{&whole}
	for _, loss := range r.flags.lossesOf(&whole) {
		if loss.Left != nil {
			clusters = append(clusters, loss.Left)
		}
	}
	var worst *watched
	for _, cluster := range clusters {
		w := &watched{}
		m, err := r.replayWatched(ctx, p, *cluster, w)
		if err != nil {
			return nil, err
		}
		m.Point = p
		if w.measure = m; worst == nil || isWorse(&m, &worst.measure) {
			worst = w
		}
	}
	return worst, nil
}

// bound is the cause that limits an objective of a cluster.
type bound struct {
	plan.Value
	point plan.Point
	limit limits.Limit
}

// bounds are the limits of a recommended cluster, and of clusters with one worker less.
type bounds struct {
	sample  int // the resample that was replayed; 0: the trace as recorded
	shape   plan.Shape
	own     []bound // by objective, the nearest to its limit first
	smaller []bound // of the bounds that are missed
}

// findBounds reads the ledgers of a plan's cluster, and of clusters with one worker less, in the hardest resample
// that the cluster meets.
func (f *planFlags) findBounds(ctx context.Context, r *planRunner, p *plan.Plan, a *plan.Answer) (*bounds, error) {
	point, smaller := choosePoints(p, a)
	b := &bounds{sample: point.Sample, shape: point.Shape}
	found := make([][]bound, 1+len(smaller))
	err := plan.Each(ctx, len(found), f.cores, func(ctx context.Context, i int) error {
		at := point
		if i > 0 {
			at.Shape = smaller[i-1]
		}
		w, err := r.watchPoint(ctx, at)
		if err == nil && (i == 0 || !w.measure.Met) {
			found[i] = f.listBounds(w)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	b.own, b.smaller = found[0], slices.Concat(found[1:]...)
	return b, nil
}

// choosePoints returns the point to replay, and the clusters with one worker less.
func choosePoints(p *plan.Plan, a *plan.Answer) (at plan.Point, smaller []plan.Shape) {
	at = plan.Point{Variant: a.Variant, Shape: a.Shape, Load: 1}
	c := a.Confident
	sure := c != nil && c.Found
	if sure {
		at.Shape = c.Shape
	} else if !a.Found {
		return at, nil
	}
	switch s := at.Shape; {
	case !s.Split() && s.Workers > 1:
		smaller = append(smaller, plan.One(s.Workers-1))
	case s.Split():
		if s.Prefill > 1 {
			smaller = append(smaller, plan.Two(s.Prefill-1, s.Decode))
		}
		if s.Decode > 1 {
			smaller = append(smaller, plan.Two(s.Prefill, s.Decode-1))
		}
	}
	if !sure {
		return at, smaller
	}
	missed := map[int]bool{} // resamples that a smaller cluster misses
	var met []*plan.Measure
	for i := range p.Measures {
		m := &p.Measures[i]
		switch {
		case m.Variant != a.Variant || m.Load != 1 || m.Sample == 0 || m.Part > 0:
		case m.Shape == at.Shape && m.Met:
			met = append(met, m)
		case !m.Met && slices.Contains(smaller, m.Shape):
			missed[m.Sample] = true
		}
	}
	stable.Sort(met, func(a, b *plan.Measure) int {
		if missed[a.Sample] != missed[b.Sample] {
			if missed[a.Sample] {
				return -1
			}
			return 1
		}
		return cmp.Compare(measureNearness(b), measureNearness(a))
	})
	if len(met) > 0 {
		at.Sample = met[0].Sample
	}
	return at, smaller
}

// measureNearness returns the ratio of a measure to its nearest limit.
func measureNearness(m *plan.Measure) float64 {
	most := 0.0
	for i := range m.Values {
		most = max(most, m.Values[i].Excess())
	}
	return most
}

// listBounds returns the limits of the objectives of a replay, the objective nearest to its limit first. The queue is
// a limit if it is the only reason for the miss.
func (f *planFlags) listBounds(w *watched) []bound {
	var all []bound
	for i := range f.slo.All {
		o := &f.slo.All[i]
		name := o.Name()
		if o.Statistic == "" {
			name = sharedName
		}
		k := slices.IndexFunc(w.measure.Values, func(v plan.Value) bool { return v.Name == name })
		if k < 0 {
			continue
		}
		b := bound{Value: w.measure.Values[k], point: w.measure.Point}
		value := b.Value.Value
		if o.Statistic == "" {
			value = 0
			b.Name = o.Title()
		}
		var ok bool
		if b.limit, ok = w.watch.Find(o, value, w.rows); ok {
			all = append(all, b)
		}
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(b.Excess(), a.Excess()), cmp.Compare(b.limit.Part, a.limit.Part)) < 0
	})
	if !w.measure.Met && !slices.ContainsFunc(all, func(b bound) bool { return !b.Met }) {
		if limit, ok := w.watch.FindQueue(w.rows); ok {
			all = slices.Insert(all, 0, bound{Value: plan.Value{Name: "queue"}, point: w.measure.Point, limit: limit})
		}
	}
	return all
}

// head returns the heading for the replay of the bounds.
func (b *bounds) head() string {
	if b != nil && b.sample > 0 {
		return fmt.Sprintf("What limits it, in resample %d, the hardest that %s:", b.sample, inflectVerb(b.shape, "1 worker meets", b.shape.String()+" meet"))
	}
	return "What limits it, on the trace as recorded:"
}

// lines describes the limits of a cluster and of clusters with one worker less, for the objective that is nearest to
// its limit or farthest above it.
func (b *bounds) lines() []string {
	if b == nil {
		return nil
	}
	var lines []string
	if len(b.own) > 0 {
		lines = append(lines, b.own[0].describe())
	}
	seen := map[plan.Shape]bool{}
	for i := range b.smaller {
		if x := &b.smaller[i]; !seen[x.point.Shape] {
			seen[x.point.Shape] = true
			lines = append(lines, fmt.Sprintf("With %s, %s", x.point.Shape, x.describe()))
		}
	}
	return lines
}

// describe returns a bound in words.
func (x *bound) describe() string {
	if x.Name == "queue" {
		return "the queue grew to the end: up to the first token, " + x.limit.String()
	}
	if x.Unit == "share" {
		return fmt.Sprintf("%s: %s", x.Name, x.limit)
	}
	return fmt.Sprintf("%s is %s (limit %s): %s", x.Name, formatTime(x.Value.Value, x.Unit), formatTime(x.Limit, x.Unit), x.limit)
}

// boundDocument is the JSON form of a bound.
type boundDocument struct {
	Workers   int             `json:"workers"`
	Prefill   int             `json:"prefill_workers"`
	Decode    int             `json:"decode_workers"`
	Resample  int             `json:"resample"`  // resample that was replayed; 0: the trace as recorded
	Objective string          `json:"objective"` // or queue, where only a queue that grew to the end makes the cluster miss
	Met       bool            `json:"met"`
	Of        string          `json:"of"`    // unit of the causes: requests (weighted by time), or gaps between tokens (by number)
	Which     string          `json:"which"` // of these: those above the limit, the slowest, or all
	Share     float64         `json:"share"` // of all of them
	Causes    []causeDocument `json:"causes"`
	Prompt    int             `json:"prefill_tokens,omitempty"`    // median of passes with a prefill
	Decoding  int             `json:"decoding_requests,omitempty"` // of a pass without, median
}

type causeDocument struct {
	Cause string  `json:"cause"`
	Share float64 `json:"share"`
}

// documents returns the JSON form of bounds.
func (b *bounds) documents() []boundDocument {
	all := []boundDocument{}
	if b == nil {
		return all
	}
	for _, x := range slices.Concat(b.own, b.smaller) {
		d := boundDocument{
			Workers: x.point.Shape.Workers, Prefill: x.point.Shape.Prefill, Decode: x.point.Shape.Decode, Resample: x.point.Sample,
			Objective: x.Name, Met: x.Met, Of: "requests", Which: "slowest", Share: x.limit.Part, Causes: []causeDocument{},
			Prompt: x.limit.PromptTokens, Decoding: x.limit.Decoding,
		}
		if x.limit.OfGaps {
			d.Of = "gaps"
		}
		switch {
		case x.limit.Over:
			d.Which = "above_limit"
		case x.limit.Part > 0.999:
			d.Which = "all"
		}
		for _, c := range x.limit.Causes {
			d.Causes = append(d.Causes, causeDocument{c.Key, c.Share})
		}
		all = append(all, d)
	}
	return all
}
