package plans

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/report/slo"
)

// makePage returns the page of a plan: the answer, the Pareto front, and all replays.
func (p *planSheet) makePage(all *table.Table) *html.SheetPage {
	var front []plan.Measure
	for i := range p.plan.Front {
		front = append(front, p.plan.Front[i].Measure)
	}
	latency, worst := "", 0.0 // the objective that is nearest to its limit
	few := []string{"met", "missed", "request_throughput_rps", "output_throughput_tok_s", "cost_per_million_tokens"}
	limits := map[string]float64{}
	for _, v := range p.shownAnswer().At.Values {
		name := strings.ReplaceAll(v.Name, " ", "_") + "_" + v.Unit
		limits[name] = v.Limit
		if few = append(few, name); v.Excess() > worst {
			latency, worst = name, v.Excess()
		}
	}
	page := &html.SheetPage{Title: "Plan: how many GPUs", Answer: p.makeAnswer()}
	add := func(title string, cells *table.Table, x string) {
		page.Tables = append(page.Tables, html.SheetTable{
			Title: title, Table: cells, X: x, Y: latency, By: "gpus", Few: few, Limits: limits,
			Mark: "met", Marked: []html.Mark{{Value: "no", Means: "misses at least one objective"}}, Rest: "meets all objectives",
		})
	}
	if len(front) > 0 {
		add("Pareto front: no other has "+p.nameBurden()+", more output tokens/s and lower latency at once", p.makeTable(front), "output_throughput_tok_s")
	}
	add(fmt.Sprintf("All %d replays", len(p.plan.Measures)), all, "load")
	return page
}

// makeAnswer returns the answer of the plan, for the top of a page.
func (p *planSheet) makeAnswer() *html.Answer {
	a := p.shownAnswer()
	page := &html.Answer{Verdict: p.formatVerdict(a), Good: new(p.isSure(a)), Across: "GPUs", Target: p.flags.confidence}
	if shape, _, ok := p.recommend(a); ok || a.Found {
		if !ok {
			shape = a.Shape
		}
		page.Number, page.Under = countGPUs(p.plan.GPUs(a.Variant, shape)), p.nameCluster(a.Variant, shape)
		if hour := p.plan.PerHour(a.Variant, shape); hour > 0 {
			page.Under += fmt.Sprintf(", %.2f %s an hour", hour, p.flags.currency)
		}
		if name := p.variantName(a.Variant); name != "" {
			page.Under += ", " + name
		}
	}
	list := func(title string, lines []string) {
		if len(lines) > 0 {
			page.Lists = append(page.Lists, html.List{Title: strings.TrimSuffix(title, ":"), Lines: lines})
		}
	}
	lines := func(title string, write func(*strings.Builder, *plan.Answer)) {
		var b strings.Builder
		if write(&b, a); b.Len() > 0 {
			list(title, strings.Split(strings.TrimSpace(b.String()), "\n"))
		}
	}
	if text := strings.TrimSpace(p.describeHopeless()); text != "" {
		list("Why no cluster meets", strings.Split(text, "\n"))
	}
	if p.narrowed != nil {
		list("Next best of other kinds, "+p.narrowed.nameStretch(-1), p.narrowed.describeNext(len(p.plan.Answers)))
	}
	list(p.bounds.head(), p.bounds.lines())
	list(sourcesTitle, p.describeSources())
	list("What if, with the same settings", p.describeWhatIfs())
	of := a.Shape.String()
	if recommendsMore(a) {
		of += ", the minimum for the trace as recorded"
		lines(of, writeMet)
	}
	lines("Why not fewer than "+of, p.writeSmaller)
	lines("Highest load of "+of, p.writeHighest)
	lines("What resamples need", p.writeBars)
	if p.narrowed != nil {
		lines := p.narrowed.describe()
		list(lines[0], lines[1:])
	}
	page.Facts = []html.Facts{{Title: "What this assumes", Rows: p.listAssumptions(a)}, {Title: "What was asked", Rows: p.listInputs(a)}}
	if len(p.plan.Answers) > 1 {
		page.Grids = append(page.Grids, p.makeVariants())
	}
	page.Grids = append(append(page.Grids, p.hourGrids()...), p.makeObjectives(a))
	for _, v := range a.At.Values {
		page.Limits = append(page.Limits, html.Limit{Name: p.nameObjective(&v), Unit: v.Unit, Limit: v.Limit})
	}
	page.Cluster = p.listClusters(a)
	if !slices.ContainsFunc(page.Cluster, func(c html.Cluster) bool { return c.PerHour == 0 }) {
		page.Across = fmt.Sprintf("cost (%s an hour)", p.flags.currency)
		for i := range page.Cluster {
			page.Cluster[i].Across = page.Cluster[i].PerHour
		}
	}
	page.Chances = p.listChances(a, page.Across != "GPUs")
	return page
}

// listChances returns the share of resamples in which clusters meet the objectives: clusters of the answer, and the
// best clusters of other settings, by cost or by GPUs.
func (p *planSheet) listChances(a *plan.Answer, byCost bool) []html.Chance {
	var all []html.Chance
	add := func(variant int, shape plan.Shape, met int, chosen bool) {
		c := html.Chance{
			Name: p.nameCluster(variant, shape), Group: p.variantName(variant), GPUs: p.plan.GPUs(variant, shape),
			Share: float64(met) / float64(max(1, p.flags.resamples)), Chosen: chosen,
		}
		if c.Across = float64(c.GPUs); byCost {
			c.Across = p.plan.PerHour(variant, shape)
		}
		all = append(all, c)
	}
	for _, c := range a.Chances {
		add(a.Variant, c.Shape, c.Met, a.Confident != nil && c.Shape == a.Confident.Shape)
	}
	for i := range p.plan.Answers {
		if c := p.plan.Answers[i].Confident; i != a.Variant && c != nil && c.Found {
			add(i, c.Shape, c.Met, false)
		}
	}
	return all
}

// listClusters returns the clusters that were replayed at the workload's load. Clusters that were replayed with all
// resamples have ranges.
func (p *planSheet) listClusters(a *plan.Answer) []html.Cluster {
	samples := map[plan.Point][]plan.Measure{}
	for _, m := range p.plan.Measures {
		if at := m.Point; m.Load == 1 && m.Sample > 0 {
			at.Sample = 0
			samples[at] = append(samples[at], m)
		}
	}
	var all []html.Cluster
	for i := range p.plan.Measures {
		m := &p.plan.Measures[i]
		if m.Load != 1 || m.Sample > 0 {
			continue
		}
		gpus := p.plan.GPUs(m.Variant, m.Shape)
		c := html.Cluster{
			Name: p.nameCluster(m.Variant, m.Shape), Group: p.variantName(m.Variant), GPUs: gpus, PerHour: p.plan.PerHour(m.Variant, m.Shape), Across: float64(gpus),
			Missed: m.Missed, Chosen: p.describeChoice(a, m),
		}
		resampled := samples[m.Point]
		for k, v := range m.Values {
			c.Values = append(c.Values, v.Value)
			if n := len(resampled); n > 1 && n == p.flags.resamples {
				low, high := rangeOf(resampled, k)
				c.Low, c.High = append(c.Low, low), append(c.High, high)
			}
		}
		all = append(all, c)
	}
	return all
}

// describeChoice returns the reason why a measure is marked, "" if it is not marked.
func (p *planSheet) describeChoice(a *plan.Answer, m *plan.Measure) string {
	switch {
	case m.Variant != a.Variant:
		return ""
	case a.Confident != nil && a.Confident.Found && m.Shape == a.Confident.Shape:
		return "answer"
	case m.Shape == a.Shape && a.Found && a.Confident != nil:
		return "as recorded"
	case m.Shape == a.Shape && a.Found:
		return "answer"
	default:
		return ""
	}
}

// rangeOf returns the range of the middle 90 % of the resamples of an objective.
func rangeOf(resampled []plan.Measure, objective int) (low, high float64) {
	values := make([]float64, len(resampled))
	for i := range resampled {
		values[i] = resampled[i].Values[objective].Value
	}
	slices.Sort(values)
	last := float64(len(values) - 1)
	return values[int(math.Round(0.05*last))], values[int(math.Round(0.95*last))]
}

// makeObjectives returns a row per objective, with its values for the clusters of the answer.
func (p *planSheet) makeObjectives(a *plan.Answer) html.Grid {
	g := html.Grid{Title: "Objectives", Head: []string{"", "limit"}}
	type column struct {
		name string
		m    *plan.Measure
	}
	var columns []column
	if c := a.Confident; c != nil && c.At.Shape != a.Shape {
		columns = append(columns, column{c.Shape.String(), &c.At})
	}
	columns = append(columns, column{a.Shape.String(), &a.At})
	clusters := p.listClusters(a)
	for _, c := range columns {
		g.Head = append(g.Head, c.name+", as recorded", "resampled, 5 to 95 %")
	}
	for k := range a.At.Values {
		row := []string{p.nameObjective(&a.At.Values[k]), formatTime(a.At.Values[k].Limit, a.At.Values[k].Unit)}
		for _, c := range columns {
			v := &c.m.Values[k]
			sign := "✗ "
			if v.Met {
				sign = "✓ "
			}
			band := "not run"
			i := slices.IndexFunc(clusters, func(o html.Cluster) bool { return o.Name == c.name && o.Group == p.variantName(a.Variant) })
			if i >= 0 && len(clusters[i].Low) > k {
				band = formatTime(clusters[i].Low[k], v.Unit) + " to " + formatTime(clusters[i].High[k], v.Unit)
			}
			row = append(row, sign+formatTime(v.Value, v.Unit), band)
		}
		g.Rows = append(g.Rows, row)
	}
	for k, other := range a.At.Others {
		row := []string{p.nameObjective(&other) + " (the other definition)", "none"}
		for _, c := range columns {
			value := ""
			if k < len(c.m.Others) {
				value = formatTime(c.m.Others[k].Value, other.Unit)
			}
			row = append(row, value, "")
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// makeVariants returns a row per choice of settings.
func (p *planSheet) makeVariants() html.Grid {
	g := html.Grid{Title: "Choices", Head: []string{"settings"}}
	for _, name := range p.variantColumns()[1:] {
		g.Head = append(g.Head, strings.ReplaceAll(name, "\n", " "))
	}
	g.Head = append(g.Head, "")
	for i := range p.plan.Answers {
		a := &p.plan.Answers[i]
		note := ""
		switch {
		case a.Refused != nil:
			note = "✗ cannot run: " + a.Refused.Error()
		case !a.Found:
			note = "✗ as recorded: " + a.At.Missed + " with " + a.Shape.String()
		}
		row := append([]string{p.variantName(i)}, p.variantCells(a)[1:]...)
		g.Rows = append(g.Rows, append(row, note))
	}
	return g
}

// listInputs returns the command, the workload and the hardware.
func (p *planSheet) listInputs(a *plan.Answer) [][2]string {
	c := &p.runner.choices[a.Variant]
	w := p.runner.samples[a.Variant][0]()
	rows := [][2]string{
		{"command", cli.QuoteCommand(p.command)},
		{"trace", fmt.Sprintf("%s, %d requests", w.Name, len(w.Turns))},
	}
	if c.spec.Mode == loadgen.Concurrency {
		rows = append(rows, [2]string{"load", p.formatLoad(&a.At)})
	} else {
		rows = append(rows, [2]string{"load", fmt.Sprintf("%.4g requests/s, %g times as fast as the trace has it", a.At.RequestsPerS, c.spec.Speedup)})
	}
	rows = append(rows, [2]string{"objectives", p.describeWanted(a)})
	for _, k := range c.spec.Entry().Kinds() {
		gpus := max(1, p.plan.Variants[a.Variant].GPUs)
		key := ""
		if k.Name == "" && p.plan.Variants[a.Variant].CountGPUs != nil {
			rows = append(rows, c.listPoolGPUs()...)
			continue
		}
		if k.Name != "" {
			gpus, _, _ = k.Engine.PassTimes.GPUs()
			key = " of " + k.Name
		}
		gpu, model := describeHardware(&k.Engine)
		rows = append(rows, [2]string{"GPU" + key, fmt.Sprintf("%s, %d a worker", gpu, gpus)}, [2]string{"model" + key, model})
	}
	return append(rows, [2]string{"price", p.describePrice(a)})
}

// listPoolGPUs returns the GPUs of the workers of each pool, if they differ.
func (c *chosen) listPoolGPUs() [][2]string {
	var rows [][2]string
	for i := range c.spec.Pools {
		pool := &c.spec.Pools[i]
		gpu, model := describeHardware(&pool.Engine)
		gpus, _, _ := pool.Engine.PassTimes.GPUs()
		of := " of " + pool.Role.String()
		rows = append(rows, [2]string{"GPU" + of, fmt.Sprintf("%s, %d a worker", gpu, gpus)}, [2]string{"model" + of, model})
	}
	return rows
}

// describePrice returns the price of a GPU, and its source.
func (p *planSheet) describePrice(a *plan.Answer) string {
	each := p.plan.Variants[a.Variant].Price
	switch {
	case each > 0 && p.flags.cost > 0:
		return fmt.Sprintf("%.2f a GPU-hour, as given", each)
	case each > 0:
		return fmt.Sprintf("%.2f a GPU-hour, a rough default: --gpu-cost", each)
	case p.plan.PerHour(a.Variant, a.Shape) > 0:
		return "a rough default for each GPU: --gpu-cost"
	}
	return "no price given"
}

// describeHardware returns the names of the GPU and of the model of an engine's pass times.
func describeHardware(a *engineargs.Args) (gpu, model string) {
	if gpu, model = a.PassTimes.Names(); gpu != "" {
		return gpu, model
	}
	return "none in particular", "none in particular"
}

// assumptionsOf returns the assumptions of replays of the cluster of an answer.
func (p *planSheet) assumptionsOf(a *plan.Answer) []engines.Assumption {
	c := &p.runner.choices[a.Variant]
	shape, _, ok := p.recommend(a)
	if !ok {
		shape = a.Shape
	}
	cluster := c.clusterOf(shape)
	all := append(cluster.Assumptions(), p.describeTails(&c.spec)...)
	if growth := p.flags.growth; growth != 1 {
		all = append(all, engines.Assumption{Key: "growth", Text: fmt.Sprintf("%g times the load of the trace (--growth)", growth)})
	}
	return all
}

// describeTails returns the assumption that 99th percentiles are not calibrated, if an objective is on a 99th
// percentile.
func (p *planSheet) describeTails(spec *replay.Spec) []engines.Assumption {
	if !slices.ContainsFunc(p.flags.slo.All, func(o slo.Objective) bool { return o.Statistic != "mean" }) {
		return nil
	}
	text := "not calibrated: no measured server tells how far quantiles are off"
	for _, k := range spec.Entry().Kinds() {
		if tails := engines.TailErrors(&k.Engine); tails != "" {
			text = "not calibrated: the model error is that of mean times; " + tails
		}
	}
	return []engines.Assumption{{Key: "quantiles", Text: text}}
}

// listAssumptions returns the assumptions of the answer.
func (p *planSheet) listAssumptions(a *plan.Answer) [][2]string {
	spec := &p.runner.choices[a.Variant].spec
	var rows [][2]string
	for _, one := range p.assumptionsOf(a) {
		rows = append(rows, [2]string{strings.ReplaceAll(one.Key, "_", " "), one.Text})
	}
	if p.flags.resamples > 0 {
		rows = append(rows, [2]string{"resamples", fmt.Sprintf("%d workloads as they could have been recorded instead, from seed %d", p.flags.resamples, spec.Seed)})
		switch model := p.flags.modelErrorOf(spec); {
		case model.servers > 0:
			rows = append(rows, [2]string{"error of pass times", fmt.Sprintf("%v in nine of ten resamples, %s%% in the middle: the errors of %d measured servers", model, formatFactor(model.centre), model.servers)})
		case model.isGiven():
			rows = append(rows, [2]string{"error of pass times", fmt.Sprintf("up to %g%% longer or shorter in nine of ten resamples", 100*model.most())})
		}
	}
	return append(rows, [2]string{"load", "a cluster misses if its queue grew to the end, whatever its latencies"})
}
