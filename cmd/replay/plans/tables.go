package plans

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/plan"
)

// writeVariants prints what each choice of settings needs. Settings stand last, or below
// when they are long.
func (p *planSheet) writeVariants(b *strings.Builder) {
	all := nameColumns([2]string{"", "#"}, [2]string{"", "GPUs"}, [2]string{"smallest", "cluster"}, [2]string{"highest", "load"}, [2]string{"", "req/s"})
	if p.plan.ByCost {
		all = append(all, nameColumns([2]string{"cost", "/hour"})...)
	}
	if best := p.shownAnswer(); p.plan.ByCost && best.Confident != nil {
		all = append(all, nameColumns([2]string{"that holds", "cost/hour"})...)
	}
	behind := []string{"", "settings"}
	for i := range p.plan.Answers {
		a := &p.plan.Answers[i]
		gpus, cluster, load, rate, cost, sure, settings := "-", "none", "-", "-", "-", "-", p.variantName(i)
		if a.Refused != nil {
			settings += ": cannot run: " + a.Refused.Error()
		} else if a.Found {
			gpus, cluster = strconv.Itoa(p.plan.GPUs(a.Variant, a.Shape)), shortenShape(a.Shape)
			cost = fmt.Sprintf("%.2f", p.plan.PerHour(a.Variant, a.Shape))
		} else {
			settings += fmt.Sprintf(": with %v, %s", a.Shape, a.At.Missed)
		}
		if c := a.Confident; c != nil && c.Found {
			sure = fmt.Sprintf("%.2f", p.plan.PerHour(a.Variant, c.Shape))
		}
		if m := a.Highest; m != nil {
			load, rate = p.formatTimes(m), fmt.Sprintf("%.2f", m.RequestsPerS)
		}
		addCells(all, []string{strconv.Itoa(i + 1), gpus, cluster, load, rate, cost, sure}[:len(all)]...)
		behind = append(behind, settings)
	}
	lines := strings.Split(strings.TrimSuffix(terminal.FormatColumns(all), "\n"), "\n")
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

// nameColumns returns columns without cells.
func nameColumns(heads ...[2]string) []terminal.Column {
	all := make([]terminal.Column, len(heads))
	for i, head := range heads {
		all[i].Head = head
	}
	return all
}

// addCells adds a row.
func addCells(all []terminal.Column, cells ...string) {
	for i, cell := range cells {
		all[i].Cells = append(all[i].Cells, cell)
	}
}

// shortenShape returns a cluster without the word for its workers, where it has two kinds.
func shortenShape(s plan.Shape) string {
	if s.Split() {
		return strings.TrimSuffix(s.String(), " workers")
	}
	return s.String()
}

// writeFront prints the Pareto front. Settings are those of writeVariants, by number.
func (p *planSheet) writeFront(b *strings.Builder) {
	if len(p.plan.Front) == 0 {
		return
	}
	b.WriteString(p.wrapText("Pareto front (clusters that meet; none has " + p.nameBurden() + ", more output tokens/s and lower latency at once):\n"))
	all := p.frontColumns()
	for i := range p.plan.Front {
		addCells(all, p.frontLine(&p.plan.Front[i])...)
	}
	var left []string
	if !p.flags.wide {
		all, left = terminal.FitColumns(all)
	}
	b.WriteString(terminal.FormatColumns(all))
	if len(left) > 0 {
		b.WriteString(p.wrapText("Left out for the width: " + strings.Join(left, ", ") + "; --wide has all.\n"))
	}
}

// nameBurden returns what a better cluster has.
func (p *planSheet) nameBurden() string {
	if p.plan.ByCost {
		return "a lower cost"
	}
	return "fewer GPUs"
}

// frontColumns returns the columns of frontLine.
func (p *planSheet) frontColumns() []terminal.Column {
	var all []terminal.Column
	if len(p.plan.Variants) > 1 {
		all = nameColumns([2]string{"settings", "#"})
	}
	if p.plan.ByCost {
		all = append(all, nameColumns([2]string{"cost", "/hour"})...)
	}
	all = append(all, nameColumns([2]string{"", "GPUs"}, [2]string{"", "cluster"}, [2]string{"", "load"}, [2]string{"requests", "/s"}, [2]string{"output", "tokens/s"})...)
	for _, v := range p.plan.Front[0].Values {
		statistic, metric, _ := strings.Cut(v.Name, " ")
		all = append(all, terminal.Column{Head: [2]string{statistic, metric}})
	}
	if p.flags.cost > 0 {
		all = append(all, terminal.Column{Head: [2]string{"cost/M", "output"}, Rank: 1}, terminal.Column{Head: [2]string{"cost/M", "tokens"}, Rank: 3})
	}
	for i := range all {
		if all[i].Head[0] == "requests" {
			all[i].Rank = 2
		}
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
