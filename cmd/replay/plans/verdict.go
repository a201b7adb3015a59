package plans

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/plan"
)

// formatVerdict returns the answer in one sentence.
func (p *planSheet) formatVerdict(a *plan.Answer) string {
	c, wanted := a.Confident, p.describeWanted(a)
	switch {
	case c != nil && !c.Found:
		text := fmt.Sprintf("No simulated cluster up to %s meets %s in %g%% of %s: the largest does in %d", p.describeCluster(a.Variant, c.Shape), wanted, 100*c.Share, p.describeCases(a), c.Met)
		if a.Found {
			text += "; the trace as recorded needs " + p.describeCluster(a.Variant, a.Shape)
		}
		return text + "."
	case c != nil:
		recorded := "the trace as recorded needs " + p.describeCluster(a.Variant, a.Shape)
		switch {
		case c.Shape == a.Shape && a.Shape.Size() == 1:
			recorded = "there is no smaller cluster"
		case c.Shape == a.Shape:
			recorded = "the trace as recorded needs as many"
		case !a.Found:
			recorded = "no cluster meets on the trace as recorded"
		}
		return fmt.Sprintf("%s%s %s %s in %d of %s; %s.", p.describeCluster(a.Variant, c.Shape), p.describeSettings(a.Variant),
			inflectVerb(c.Shape, "meets", "meet"), wanted, c.Met, p.describeCases(a), recorded)
	case !a.Found && p.plan.Variants[a.Variant].Fixed.Size() == 0:
		return fmt.Sprintf("No simulated cluster up to %s meets %s: %s.", p.describeCluster(a.Variant, a.Shape), wanted, a.At.Missed)
	case !a.Found:
		return fmt.Sprintf("%s%s %s not meet %s: %s.", p.describeCluster(a.Variant, a.Shape), p.describeSettings(a.Variant),
			inflectVerb(a.Shape, "does", "do"), wanted, a.At.Missed)
	}
	resampled := ", which was not resampled"
	if a.Bars != nil {
		resampled = fmt.Sprintf(", and in %d of %s", a.Bars.Met, p.describeCases(a))
		if !p.isSure(a) {
			resampled += fmt.Sprintf(", less often than the target of %g%%", 100*p.flags.confidence)
		}
	}
	return fmt.Sprintf("%s%s %s %s on the trace as recorded%s.", p.describeCluster(a.Variant, a.Shape), p.describeSettings(a.Variant),
		inflectVerb(a.Shape, "meets", "meet"), wanted, resampled)
}

// isSure reports whether the cluster of an answer meets in the required share of resamples, if there are resamples.
func (p *planSheet) isSure(a *plan.Answer) bool {
	switch {
	case a.Confident != nil:
		return a.Confident.Found
	case a.Bars != nil:
		return a.Found && float64(a.Bars.Met) >= p.flags.confidence*float64(a.Bars.Resamples)-1e-9
	default:
		return a.Found
	}
}

// describeCluster describes a cluster with its GPUs and their cost.
func (p *planSheet) describeCluster(variant int, shape plan.Shape) string {
	gpus := p.plan.GPUs(variant, shape)
	noun := "GPUs"
	if gpus == 1 {
		noun = "GPU"
	}
	hourly := ""
	if price := p.plan.PerHour(variant, shape); price > 0 {
		hourly = fmt.Sprintf(", %.2f an hour", price)
	}
	return fmt.Sprintf("%d %s (%s%s)", gpus, noun, p.nameCluster(variant, shape), hourly)
}

// describeSettings describes the choice of settings, if there are several.
func (p *planSheet) describeSettings(variant int) string {
	if name := p.variantName(variant); name != "" {
		return ", " + name + ","
	}
	return ""
}

// describeCases describes the resamples.
func (p *planSheet) describeCases(a *plan.Answer) string {
	cases := fmt.Sprintf("%d simulated resamples", p.flags.resamples)
	switch model := p.flags.modelErrorOf(&p.runner.choices[a.Variant].spec); {
	case model.servers > 0:
		cases += fmt.Sprintf(" with pass times changed by %v", model)
	case model.isGiven():
		cases += fmt.Sprintf(" with passes up to %g%% longer or shorter", 100*model.most())
	}
	return cases
}

// describeWanted describes the objectives with their limits.
func (p *planSheet) describeWanted(a *plan.Answer) string {
	var parts []string
	for i := range a.At.Values {
		v := &a.At.Values[i]
		if v.Unit == "share" {
			of := " of the requests"
			if class, _, ok := strings.Cut(v.Name, ": "); ok {
				of += " of " + class
			}
			parts = append(parts, p.describeEach()+" for "+formatTime(v.Limit, v.Unit)+of)
			continue
		}
		parts = append(parts, p.nameObjective(v)+" ≤ "+formatTime(v.Limit, v.Unit))
	}
	return strings.Join(parts, ", and ") + p.flags.describeSurvival()
}

// describeEach describes the limits on the times of each request.
func (p *planSheet) describeEach() string {
	var each []string
	for _, o := range p.flags.slo.All {
		if o.Statistic == "" {
			name := strings.ToUpper(o.Metric)
			if o.Class != "" {
				name += " of " + o.Class
			}
			each = append(each, name+" ≤ "+formatTime(o.LimitMS, "ms"))
		}
	}
	return strings.Join(each, " and ")
}

// nameObjective returns the name of an objective, such as TTFT.
func (p *planSheet) nameObjective(v *plan.Value) string {
	if v.Unit == "share" {
		if class, _, ok := strings.Cut(v.Name, ": "); ok {
			return class + " requests with " + p.describeEach()
		}
		return "requests with " + p.describeEach()
	}
	metric := v.Name[strings.LastIndexByte(v.Name, ' ')+1:]
	return strings.TrimSuffix(v.Name, metric) + strings.ToUpper(metric)
}

// formatTime formats a time in its most readable unit.
func formatTime(v float64, unit string) string {
	switch {
	case unit == "share":
		return fmt.Sprintf("%.4g%%", 100*v)
	case v >= 1e7:
		return fmt.Sprintf("%.0f s", v/1000)
	case v >= 1000:
		return fmt.Sprintf("%.4g s", v/1000)
	default:
		return fmt.Sprintf("%.4g %s", v, unit)
	}
}

// inflectVerb returns the verb for one worker or for several.
func inflectVerb(s plan.Shape, one, several string) string {
	if s.Size() == 1 {
		return one
	}
	return several
}
