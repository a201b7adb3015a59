package plans

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/plan"
)

// writeVariants prints the need of each choice of settings. The settings are the last column, or below the table if
// they are long.
func (p *planSheet) writeVariants(b *strings.Builder) {
	all := table.New(p.variantColumns()...)
	behind := []string{"", "settings"}
	for i := range p.plan.Answers {
		a := &p.plan.Answers[i]
		all.Add(p.variantCells(a)...)
		settings := p.variantName(i)
		switch {
		case a.Refused != nil:
			settings += ": cannot run: " + a.Refused.Error()
		case !a.Found:
			settings += fmt.Sprintf(": with %v, %s", a.Shape, a.At.Missed)
		}
		behind = append(behind, settings)
	}
	lines := strings.Split(strings.TrimSuffix(all.Text(), "\n"), "\n")
	for i, line := range lines {
		switch whole := line + "  " + behind[i]; {
		case i == 0: // the first line of the heads
			b.WriteString(line + "\n")
		case p.flags.wide || utf8.RuneCountInString(whole) <= terminal.Width:
			b.WriteString(whole + "\n")
		default:
			b.WriteString(line + "\n" + terminal.WrapLine("       "+behind[i], 9) + "\n")
		}
	}
	b.WriteString("\n")
}

// resamplesAll reports whether every choice of settings was resampled.
func (p *planSheet) resamplesAll() bool { return p.flags.resamples > 0 && p.flags.confidence > 0 }

// variantColumns returns the columns of variantCells.
func (p *planSheet) variantColumns() []string {
	all := []string{"#", "smallest\ncluster", "GPUs"}
	if p.plan.ByCost {
		all = append(all, "cost\n/hour")
	}
	if p.resamplesAll() {
		all[1] = "recommended\ncluster"
		all = append(all, fmt.Sprintf("met\nof %d", p.flags.resamples), "as recorded\ncluster")
	}
	return append(all, "highest\nload", "req/s")
}

// variantCells returns the row of a choice of settings.
func (p *planSheet) variantCells(a *plan.Answer) []string {
	line := []string{strconv.Itoa(a.Variant + 1)}
	cluster := func(shape plan.Shape, found bool) {
		if !found {
			line = append(line, "none", "-")
		} else {
			line = append(line, shortenShape(shape), strconv.Itoa(p.plan.GPUs(a.Variant, shape)))
		}
		switch {
		case p.plan.ByCost && found:
			line = append(line, fmt.Sprintf("%.2f", p.plan.PerHour(a.Variant, shape)))
		case p.plan.ByCost:
			line = append(line, "-")
		}
	}
	if p.resamplesAll() {
		shape, met, sure := p.recommend(a)
		cluster(shape, sure)
		if a.Refused != nil {
			line = append(line, "-")
		} else {
			line = append(line, strconv.Itoa(met))
		}
		recorded := "none"
		if a.Found {
			recorded = shortenShape(a.Shape)
		}
		line = append(line, recorded)
	} else {
		cluster(a.Shape, a.Found)
	}
	if m := a.Highest; m != nil {
		return append(line, p.formatTimes(m), fmt.Sprintf("%.2f", m.RequestsPerS))
	}
	return append(line, "-", "-")
}

// recommend returns the cluster of an answer that meets the target, the number of resamples in which it meets, and
// whether there is such a cluster.
func (p *planSheet) recommend(a *plan.Answer) (shape plan.Shape, met int, ok bool) {
	if c := a.Confident; c != nil {
		return c.Shape, c.Met, c.Found
	}
	return a.Shape, a.ResamplesMet, a.Refused == nil && float64(a.ResamplesMet) >= p.flags.confidence*float64(p.flags.resamples)-1e-9
}

// shortenShape returns the text of a cluster, without the word for its workers if it has two kinds.
func shortenShape(s plan.Shape) string {
	if s.Split() {
		return strings.TrimSuffix(s.String(), " workers")
	}
	return s.String()
}

// writeFront prints the Pareto front. writeFront names settings by their numbers in writeVariants.
func (p *planSheet) writeFront(b *strings.Builder) {
	if len(p.plan.Front) == 0 {
		return
	}
	b.WriteString(p.wrapText("Pareto front on the trace as recorded (clusters that meet; none has " + p.nameBurden() + ", more output tokens/s and lower latency at once):\n"))
	all := p.frontColumns()
	for i := range p.plan.Front {
		all.Add(p.frontLine(&p.plan.Front[i])...)
	}
	var left []string
	if !p.flags.wide {
		left = all.Fit(terminal.Width)
	}
	b.WriteString(all.Text())
	if len(left) > 0 {
		b.WriteString(p.wrapText("Left out for the width: " + strings.Join(left, ", ") + "; --wide has all.\n"))
	}
}

// nameBurden returns the name of the value that is lower for a better cluster.
func (p *planSheet) nameBurden() string {
	if p.plan.ByCost {
		return "a lower cost"
	}
	return "fewer GPUs"
}

// frontColumns returns the columns of frontLine.
func (p *planSheet) frontColumns() *table.Table {
	all := &table.Table{}
	if len(p.plan.Variants) > 1 {
		all.AddColumns("settings\n#")
	}
	if p.plan.ByCost {
		all.AddColumns("cost\n/hour")
	}
	all.AddColumns("GPUs", "cluster", "load", "requests\n/s", "output\ntokens/s")
	all.Columns[len(all.Columns)-2].Rank = 2
	for _, v := range p.plan.Front[0].Values {
		all.AddColumns(strings.Replace(v.Name, " ", "\n", 1))
	}
	if p.flags.cost > 0 {
		all.Columns = append(all.Columns, table.Column{Above: "cost/M", Name: "output", Rank: 1}, table.Column{Above: "cost/M", Name: "tokens", Rank: 3})
	}
	return all
}

func (p *planSheet) frontLine(r *plan.Row) []string {
	var line []string
	if len(p.plan.Variants) > 1 {
		line = []string{strconv.Itoa(r.Variant + 1)}
	}
	if p.plan.ByCost {
		line = append(line, fmt.Sprintf("%.2f", p.plan.PerHour(r.Variant, r.Shape)))
	}
	line = append(line, strconv.Itoa(r.GPUs), shortenShape(r.Shape), fmt.Sprintf("%.3g", r.Load), fmt.Sprintf("%.2f", r.RequestsPerS), fmt.Sprintf("%.2f", r.OutputTokensPerS))
	for _, v := range r.Values {
		line = append(line, formatAmount(v.Value, v.Unit))
	}
	if p.flags.cost > 0 {
		line = append(line, fmt.Sprintf("%.4f", p.cost(&r.Measure, r.OutputTokensPerS)), fmt.Sprintf("%.4f", p.cost(&r.Measure, r.TotalTokensPerS)))
	}
	return line
}
