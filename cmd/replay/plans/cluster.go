package plans

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
)

// clusterOf returns the cluster of a shape.
func (c *chosen) clusterOf(shape plan.Shape) replay.Topology {
	if shape.Split() {
		return c.spec.Resize(max(1, shape.Prefill), max(1, shape.Decode))
	}
	return c.spec.Resize(shape.Workers)
}

// isNumber reports whether --workers is a number, and no mix.
func isNumber(workers string) bool { return !strings.Contains(workers, ":") }

// isMixed reports whether workers are of several kinds.
func (c *chosen) isMixed() bool { return len(c.spec.Entry().Mix) > 0 }

// countGPUs sets the number of GPUs of workers, and their cost.
func (c *chosen) countGPUs() (err error) {
	if !c.isMixed() {
		c.variant.GPUs, c.variant.Price, err = c.spec.Entry().Engine.PassTimes.GPUs()
		if alike, wrong := c.isAlike(); alike || wrong != nil {
			return cmp.Or(err, wrong)
		}
	}
	_, err = c.spec.GPUs()
	c.variant.CountGPUs = func(shape plan.Shape) int {
		cluster := c.clusterOf(shape)
		gpus, _ := cluster.GPUs() // the whole mix was counted before
		return gpus.Count
	}
	c.variant.PricePerHour = func(shape plan.Shape) float64 {
		cluster := c.clusterOf(shape)
		gpus, _ := cluster.GPUs()
		return gpus.Price
	}
	return err
}

// isAlike reports whether the workers of all pools have equal numbers of GPUs.
func (c *chosen) isAlike() (bool, error) {
	for i := range c.spec.Pools {
		if n, _, err := c.spec.Pools[i].Engine.PassTimes.GPUs(); n != c.variant.GPUs || err != nil {
			return false, err
		}
	}
	return true, nil
}

// nameCluster returns the name of a cluster and, in a mix, the number of workers of each kind.
func (p *planSheet) nameCluster(variant int, shape plan.Shape) string {
	c := &p.runner.choices[variant]
	if !c.isMixed() {
		return shape.String()
	}
	cluster := c.clusterOf(shape)
	return shape.String() + ", " + cluster.Entry().DescribeKinds()
}

// sizedAs returns settings of a pool with at least this number of workers, for a search of the number. If the
// settings have speeds, the number is a multiple of the number of speeds. The slow workers come first, so that
// smaller clusters contain them; larger clusters repeat all speeds.
func sizedAs(settings []plan.Setting, pool string, least int) []plan.Setting {
	var speeds []string
	for _, s := range settings {
		if s.Name == pool+"worker-speed" && s.Value != "" {
			speeds = strings.Split(s.Value, ",")
		}
	}
	if len(speeds) == 0 {
		return []plan.Setting{{Name: pool + "workers", Value: strconv.Itoa(least)}}
	}
	speedOf := func(text string) float64 {
		v, _ := strconv.ParseFloat(strings.TrimSpace(text), 64) // values that are no numbers are rejected later
		return v
	}
	stable.Sort(speeds, func(a, b string) int { return cmp.Compare(speedOf(a), speedOf(b)) })
	speeds = slices.Repeat(speeds, (least+len(speeds)-1)/len(speeds))
	return []plan.Setting{{Name: pool + "workers", Value: strconv.Itoa(len(speeds))}, {Name: pool + "worker-speed", Value: strings.Join(speeds, ",")}}
}

// writeDiffering writes the differences between the workers of an answer, if there are any.
func (p *planSheet) writeDiffering(b *strings.Builder, a *plan.Answer) {
	for _, one := range p.assumptionsOf(a) {
		if strings.HasSuffix(one.Key, "worker_speed") {
			fmt.Fprintf(b, "  %s: %s\n", strings.ReplaceAll(one.Key, "_", " "), one.Text)
		}
	}
}
