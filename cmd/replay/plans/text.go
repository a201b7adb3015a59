package plans

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/deployment/launch"
)

// planSheet is a plan with all data that its printed forms need.
type planSheet struct {
	plan     *plan.Plan
	narrowed *searched // nil: nothing was searched for
	hopeless *hopeless // nil: some number of workers may meet the objectives
	// reachable are objectives that can be met if the given ones cannot; nil: the given objectives can be met, or no
	// reachable ones are known.
	reachable *reachable
	bounds    *bounds
	sources   []source // of uncertainty
	whatIfs   []whatIf // with --what-if
	flags     *planFlags
	runner    *planRunner
	command   []string // without the program
	inputs    []plan.Setting
	emitted   []*launch.Output // with --emit
	hours     *byHour          // with --by-hour
}

// write prints a plan in the requested form, and writes its JSON document to the file of --report-json.
func (p *planSheet) write(w io.Writer) error {
	if path := p.flags.document; path != "" {
		if err := collector.WriteFile(path, p.writeJSON); err != nil {
			return fmt.Errorf("--report-json: %w", err)
		}
	}
	if p.flags.form.Value == "json" {
		return cmp.Or(p.writeJSON(w), p.endFound())
	}
	_, err := io.WriteString(w, p.formatText())
	return cmp.Or(err, p.endFound())
}

// writeJSON writes the JSON form of a plan.
func (p *planSheet) writeJSON(w io.Writer) error { return cli.WriteJSON(w, p.planDocument()) }

// formatText returns the text form of a plan.
func (p *planSheet) formatText() string {
	var b strings.Builder
	if len(p.plan.Answers) > 1 {
		p.writeVariants(&b)
	}
	if best := p.shownAnswer(); best != nil {
		var answer strings.Builder
		p.writeAnswer(&answer, best)
		b.WriteString(p.wrapText(answer.String()))
	}
	b.WriteString(p.wrapText(p.describeHopeless()))
	if p.narrowed != nil {
		p.writeList(&b, "Next best of other kinds, "+p.narrowed.nameStretch(-1)+":", p.narrowed.describeNext(len(p.plan.Answers)))
	}
	p.writeList(&b, p.bounds.head(), p.bounds.lines())
	p.writeList(&b, sourcesTitle, p.describeSources())
	p.writeList(&b, "What if, with the same settings:", p.describeWhatIfs())
	b.WriteString(p.formatHours())
	if p.narrowed != nil {
		p.writeSearch(&b)
	}
	p.writeFront(&b)
	for _, line := range runs.AssumptionLines(p.assumptionsOf(p.shownAnswer())) {
		fmt.Fprintln(&b, line)
	}
	if p.narrowed != nil {
		fmt.Fprintf(&b, "Replays after the search: %d\n", len(p.plan.Measures))
	} else {
		fmt.Fprintf(&b, "Replays: %d\n", len(p.plan.Measures))
	}
	b.WriteString(p.formatEmitted())
	return b.String()
}

// describeHopeless returns the reason why no number of workers helps, and the reachable objectives; "" if the
// objectives can be met.
func (p *planSheet) describeHopeless() string {
	text := ""
	if h := p.hopeless; h != nil {
		reason := h.Error()
		text = strings.ToUpper(reason[:1]) + reason[1:] + "\n"
	}
	if p.reachable != nil {
		text += p.reachable.describe() + "\n"
	}
	return text
}

// writeList writes lines below a heading, and no heading without lines.
func (p *planSheet) writeList(b *strings.Builder, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString(p.wrapText(head + "\n"))
	for _, line := range lines {
		b.WriteString(p.wrapText("  " + line + "\n"))
	}
}

// writeSearch writes the choices that a search of settings omitted.
func (p *planSheet) writeSearch(b *strings.Builder) {
	lines := p.narrowed.describe()
	p.writeList(b, lines[0], lines[1:])
	if text := p.narrowed.describeNearest(); text != "" {
		b.WriteString(p.wrapText(text + "\n"))
	}
}

// wrapText wraps text to the width of a terminal, unless --wide is set.
func (p *planSheet) wrapText(text string) string {
	if p.flags.wide {
		return text
	}
	return terminal.WrapText(text, 2)
}

// endFound returns the error of a plan without a result.
func (p *planSheet) endFound() error {
	if p.plan.Best >= 0 || p.shownAnswer().Highest != nil {
		return nil
	}
	return cli.Coded(cli.ExitObjective, "no cluster considered meets the objectives")
}

// shownAnswer returns the answer that is printed in full: the best answer, or the first answer that misses. A plan
// always has such an answer, since a plan without a runnable choice is an error.
func (p *planSheet) shownAnswer() *plan.Answer { return shownAnswer(p.plan) }

func shownAnswer(p *plan.Plan) *plan.Answer {
	if p.Best >= 0 {
		return &p.Answers[p.Best]
	}
	return &p.Answers[slices.IndexFunc(p.Answers, func(a plan.Answer) bool { return a.Refused == nil })]
}

func (p *planSheet) variantName(i int) string { return p.plan.Variants[i].Name }

func (p *planSheet) writeAnswer(b *strings.Builder, a *plan.Answer) {
	fixed := p.plan.Variants[a.Variant].Fixed.Size() > 0
	p.writeConfident(b, a)
	if recommendsMore(a) {
		p.writeFigures(b, &a.Confident.At, a.Confident.Values)
	}
	head, hourly := "Smallest cluster", ""
	if p.plan.ByCost && a.Confident == nil {
		head, hourly = "Cheapest cluster", p.formatHourly(a.Variant, a.Shape)
	}
	switch {
	case fixed:
		head = "Cluster"
	case !a.Found && a.Confident != nil:
		head = "No cluster meets the objectives for the trace as recorded; the largest considered"
	case !a.Found:
		head = "No cluster meets the objectives; the largest considered"
	case a.Confident != nil && a.Confident.Found && a.Confident.Shape == a.Shape:
		head = "Minimum for the trace as recorded, the same"
	case a.Confident != nil:
		head = "Minimum for the trace as recorded"
	}
	if a.Confident == nil && a.Found {
		head += p.flags.describeSurvival()
	}
	name := ""
	if v := p.variantName(a.Variant); v != "" {
		name = ", " + v
	}
	fmt.Fprintf(b, "%s: %s (%s)%s%s\n", head, p.nameCluster(a.Variant, a.Shape), countGPUs(p.plan.GPUs(a.Variant, a.Shape)), name, hourly)
	p.writeDiffering(b, a)
	if s := p.flags.describeSurvival(); s != "" && !a.Found && fixed {
		fmt.Fprintf(b, "  Misses%s: %s\n", s, a.At.Missed)
	}
	writeMet(b, a)
	var resampled []plan.Range
	if a.Bars != nil {
		resampled = a.Bars.Values
	}
	p.writeFigures(b, &a.At, resampled)
	p.writeSmaller(b, a)
	p.writeHighest(b, a)
	p.writeBars(b, a)
}

// recommendsMore reports whether the recommended cluster of an answer is not its minimum for the trace as recorded.
func recommendsMore(a *plan.Answer) bool {
	return a.Confident != nil && a.Confident.Found && a.Confident.Shape != a.Shape
}

// writeMet writes the number of resamples in which the cluster of an answer meets, unless the recommendation has it.
func writeMet(b *strings.Builder, a *plan.Answer) {
	bars := a.Bars
	if bars == nil || a.Confident != nil && a.Confident.Shape == a.Shape {
		return
	}
	fmt.Fprintf(b, "  meets the objectives in %d of %d resamples", bars.Met, bars.Resamples)
	if c := a.Confident; c != nil && a.Found && float64(bars.Met) < c.Share*float64(bars.Resamples)-1e-9 {
		fmt.Fprintf(b, ", fewer than the target of %g%%", 100*c.Share)
	}
	fmt.Fprintln(b)
}

// writeFigures writes the measures of a replay of the trace as recorded, and the middle 90 % of resamples.
func (p *planSheet) writeFigures(b *strings.Builder, at *plan.Measure, resampled []plan.Range) {
	t := table.NewLeft("", "", "")
	for i := range at.Values {
		v := &at.Values[i]
		t.Add(v.Name, formatMet(v.Met), formatAmount(v.Value, v.Unit)+" (limit "+formatLimit(v)+")"+formatBar(resampled, i, v.Unit))
	}
	b.WriteString(t.Text())
	for _, v := range at.Others {
		what := "each request's mean gap, instead of all gaps pooled"
		if strings.HasSuffix(v.Name, "itl") {
			what = "all gaps pooled, instead of each request's mean"
		}
		fmt.Fprintf(b, "  (%s, %s: %s)\n", v.Name, what, formatAmount(v.Value, v.Unit))
	}
	fmt.Fprintf(b, "  %.2f requests/s, %.2f output tokens/s, prefix-cache hit rate %.1f%%%s\n",
		at.RequestsPerS, at.OutputTokensPerS, 100*at.PrefixReusedRatio, p.formatCost(at))
	if at.Window != "" {
		b.WriteString(terminal.WrapLine("  Window: "+at.Window, 4) + "\n")
	}
	if at.Rejected > 0 {
		b.WriteString(terminal.WrapLine(fmt.Sprintf("  Rejected: %d requests with prompts longer than the engines take, which have missed their objectives", at.Rejected), 4) + "\n")
	}
	if at.Capped > 0 {
		b.WriteString(terminal.WrapLine(fmt.Sprintf("  Capped: %d answers, which end at the longest sequence", at.Capped), 4) + "\n")
	}
	if at.Arrived > 0 {
		fmt.Fprintf(b, "  Shed: %d of %d requests, which have missed their objectives\n", at.Shed, at.Arrived)
	}
}

// writeConfident writes the recommended answer: the cluster that meets in enough resamples.
func (p *planSheet) writeConfident(b *strings.Builder, a *plan.Answer) {
	c := a.Confident
	if c == nil {
		return
	}
	name := ""
	if v := p.variantName(a.Variant); v != "" {
		name = ", " + v
	}
	if !c.Found {
		fmt.Fprintf(b, "No cluster up to %v%s meets the target of %g%%: it meets the objectives in %d of %s\n", c.Shape, name, 100*c.Share, c.Met, p.describeResamples(a))
		return
	}
	fmt.Fprintf(b, "Recommended cluster%s: %s (%s)%s%s\n", p.flags.describeSurvival(), p.nameCluster(a.Variant, c.Shape), countGPUs(p.plan.GPUs(a.Variant, c.Shape)), name, p.formatHourly(a.Variant, c.Shape))
	fmt.Fprintf(b, "  meets the objectives in %d of %s; target %g%%\n", c.Met, p.describeResamples(a), 100*c.Share)
	p.writeChances(b, a)
	p.writeOthers(b, a)
}

// writeChances writes the number of resamples in which clusters of other sizes meet.
func (p *planSheet) writeChances(b *strings.Builder, a *plan.Answer) {
	if len(a.Chances) < 2 {
		return
	}
	var parts []string
	for _, c := range a.Chances {
		parts = append(parts, fmt.Sprintf("%s in %.0f%%", countGPUs(p.plan.GPUs(a.Variant, c.Shape)), 100*float64(c.Met)/float64(p.flags.resamples)))
	}
	fmt.Fprintf(b, "  By size: %s\n", strings.Join(parts, ", "))
}

// writeOthers writes the needs of the other choices of settings.
func (p *planSheet) writeOthers(b *strings.Builder, best *plan.Answer) {
	var parts []string
	for i := range p.plan.Answers {
		a := &p.plan.Answers[i]
		switch c := a.Confident; {
		case i == best.Variant:
		case a.Refused != nil:
			parts = append(parts, p.variantName(i)+" cannot run")
		case c != nil && c.Found:
			parts = append(parts, p.variantName(i)+" needs "+countGPUs(p.plan.GPUs(i, c.Shape)))
		case c != nil:
			parts = append(parts, fmt.Sprintf("%s does not meet the target with up to %s", p.variantName(i), countGPUs(p.plan.GPUs(i, c.Shape))))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "  %s\n", strings.Join(parts, "; "))
	}
}

// countGPUs returns a number of GPUs in words.
func countGPUs(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// describeResamples describes the resamples: their number, and the inputs that vary.
func (p *planSheet) describeResamples(a *plan.Answer) string {
	text := fmt.Sprintf("%d resamples (arrivals redrawn", p.flags.resamples)
	if model := p.flags.modelErrorOf(&p.runner.choices[a.Variant].spec); model.isGiven() {
		text += fmt.Sprintf(", pass times %v", model)
	}
	return text + ")"
}

// formatHourly returns the cost of a cluster for one hour, "" without a price.
func (p *planSheet) formatHourly(variant int, shape plan.Shape) string {
	hour, each := p.plan.PerHour(variant, shape), p.plan.Variants[variant].Price
	text := fmt.Sprintf(", %.2f an hour", hour)
	switch {
	case hour == 0:
		return ""
	case p.flags.cost > 0:
		return text
	case each == 0:
		return text + " at rough defaults"
	}
	return text + fmt.Sprintf(" at %.2f a GPU, a rough default: --gpu-cost", each)
}

func formatMet(ok bool) string {
	if ok {
		return "met"
	}
	return "missed"
}

// formatAmount formats a value with its unit.
func formatAmount(v float64, unit string) string {
	if unit == "share" {
		return fmt.Sprintf("%.2f%%", 100*v)
	}
	return fmt.Sprintf("%.2f %s", v, unit)
}

// formatLimit returns the limit of a value, as it was given.
func formatLimit(v *plan.Value) string {
	if v.Unit == "share" {
		return formatAmount(v.Limit, v.Unit)
	}
	return strconv.FormatFloat(v.Limit, 'f', -1, 64) + " " + v.Unit
}

// formatBar returns the error bar of objective i, "" without resamples.
func formatBar(resampled []plan.Range, i int, unit string) string {
	if resampled == nil {
		return ""
	}
	r := resampled[i]
	from := strings.TrimSuffix(formatAmount(r.P5, unit), " "+unit)
	return fmt.Sprintf(", resampled %s to %s", from, formatAmount(r.P95, unit))
}

// writeSmaller writes the reason why a smaller cluster misses.
func (p *planSheet) writeSmaller(b *strings.Builder, a *plan.Answer) {
	if !a.Found {
		return
	}
	for i := range a.Smaller {
		m := &a.Smaller[i]
		if m.Met {
			fmt.Fprintf(b, "With %s: met too%s\n", p.nameCluster(m.Variant, m.Shape), describeSmallerMet(a, i))
			continue
		}
		fmt.Fprintf(b, "With %s: %s%s\n", p.nameCluster(m.Variant, m.Shape), m.Missed, describeSmallerMet(a, i))
	}
	switch {
	case p.plan.Variants[a.Variant].Fixed.Size() > 0:
	case a.Checked == 1 && a.EverySmaller:
		fmt.Fprintln(b, "There is no other smaller cluster")
	case a.EverySmaller && a.Checked > 0:
		fmt.Fprintf(b, "All %d smaller clusters were run, and miss\n", a.Checked)
	case a.Checked > 1:
		fmt.Fprintf(b, "%d smaller clusters were run, and miss\n", a.Checked)
	}
	if len(a.Larger) > 0 && p.plan.Variants[a.Variant].Fixed.Size() == 0 {
		m := &a.Larger[0]
		fmt.Fprintf(b, "More is not always better here: with %v, %s\n", m.Shape, m.Missed)
	}
}

// describeSmallerMet returns the number of resamples in which a smaller cluster meets, "" if it was not resampled.
func describeSmallerMet(a *plan.Answer, smaller int) string {
	if a.Bars == nil || smaller >= len(a.Bars.SmallerMet) {
		return ""
	}
	return fmt.Sprintf("; meets in %d of %d resamples", a.Bars.SmallerMet[smaller], a.Bars.Resamples)
}

func (p *planSheet) writeHighest(b *strings.Builder, a *plan.Answer) {
	head := "Highest load"
	if recommendsMore(a) {
		head += " of " + a.Shape.String()
	}
	switch {
	case a.Highest != nil:
		fmt.Fprintf(b, "%s: %s, %.2f output tokens/s%s\n", head, p.formatLoad(a.Highest), a.Highest.OutputTokensPerS, p.formatCost(a.Highest))
	case a.Beyond != nil:
		fmt.Fprintf(b, "%s: none down to %s\n", head, p.formatLoad(a.Beyond))
	}
	if a.Highest != nil && a.Beyond != nil {
		fmt.Fprintf(b, "At %s: %s\n", p.formatLoad(a.Beyond), a.Beyond.Missed)
	}
	if a.Highest != nil && a.Beyond == nil {
		fmt.Fprintln(b, "No higher load was tried: the objectives do not bound it")
	}
}

// writeBars writes the ranges of the smallest clusters and of the highest loads over the resamples, if resamples were
// searched.
func (p *planSheet) writeBars(b *strings.Builder, a *plan.Answer) {
	bars := a.Bars
	if bars == nil {
		return
	}
	var parts []string
	if r := bars.Workers; r != nil {
		parts = append(parts, fmt.Sprintf("smallest cluster %.0f to %.0f workers", r.P5, r.P95))
	}
	if r := bars.Load; r != nil {
		of := ""
		if recommendsMore(a) {
			of = " of " + a.Shape.String()
		}
		parts = append(parts, fmt.Sprintf("highest load%s %.2f to %.2f times the workload's", of, r.P5, r.P95))
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "Searched in each resample (middle 90%%): %s\n", strings.Join(parts, "; "))
	}
}

// formatLoad returns the load of a measure in words.
func (p *planSheet) formatLoad(m *plan.Measure) string {
	if m == nil {
		return "none"
	}
	if p.runner.choices[m.Variant].spec.Mode == loadgen.Concurrency {
		return fmt.Sprintf("%d requests in flight", p.countInFlight(m))
	}
	return fmt.Sprintf("%.4g times the workload's, %.2f requests/s", m.Load, m.RequestsPerS)
}

// formatTimes is formatLoad for a table cell.
func (p *planSheet) formatTimes(m *plan.Measure) string {
	if spec := &p.runner.choices[m.Variant].spec; spec.Mode == loadgen.Concurrency {
		return fmt.Sprintf("%d in flight", p.countInFlight(m))
	}
	return fmt.Sprintf("%.4gx", m.Load)
}

// countInFlight returns the number of requests in flight in closed loop.
func (p *planSheet) countInFlight(m *plan.Measure) int {
	return max(1, int(float64(p.runner.choices[m.Variant].spec.MaxInFlight)*m.Load+0.5))
}

// cost returns the price of a million tokens at a rate of tokens.
func (p *planSheet) cost(m *plan.Measure, tokensPerS float64) float64 {
	return plan.CostPerMillion(p.plan.GPUs(m.Variant, m.Shape), p.flags.cost, tokensPerS)
}

// formatCost returns the cost of tokens at a load, "" without a price.
func (p *planSheet) formatCost(m *plan.Measure) string {
	if p.flags.cost == 0 {
		return ""
	}
	return fmt.Sprintf("; %.4f per million output tokens, %.4f per million tokens", p.cost(m, m.OutputTokensPerS), p.cost(m, m.TotalTokensPerS))
}
