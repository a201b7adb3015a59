package schedules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/table"
)

// Format returns the pool as text. wrap breaks long lines.
func (p *Pool) Format(wrap func(string) string) string {
	b := &strings.Builder{}
	needed, hour := p.Needed()
	b.WriteString(wrap(fmt.Sprintf("%d deployments need %d GPUs at most, in hour %d; the pool has %d\n", len(p.Members), needed, hour, p.GPUs)))
	for i := range p.Members {
		m := &p.Members[i]
		text := fmt.Sprintf("  %s, %s: %s, objectives %s", m.Name, m.Trace, m.schedule.describeSizes(), formatMet(m.met))
		if m.Factor != 1 {
			text += fmt.Sprintf(" with pass times %+.0f%%", 100*(m.Factor-1))
		}
		if !m.met {
			text += ": " + m.missed
		}
		b.WriteString(wrap(text + "\n"))
	}
	b.WriteString("\n")
	t := table.New("hour")
	for i := range p.Members {
		t.AddColumns(p.Members[i].Name)
	}
	t.AddColumns("GPUs", "at its start", "free")
	for k := range p.hours {
		one := &p.hours[k]
		cells := []string{strconv.Itoa(k)}
		for _, gpus := range append(slices.Clone(one.gpus), one.total, one.needs(), p.GPUs-one.needs()) {
			cells = append(cells, strconv.Itoa(gpus))
		}
		t.Add(cells...)
	}
	if !p.starts() {
		t.Remove(len(t.Columns) - 2)
	}
	b.WriteString(t.Text() + "\n")
	p.writeWays(b)
	return b.String()
}

// starts reports whether workers have a startup time.
func (p *Pool) starts() bool { return p.Members[0].schedule.startup > 0 }

// countHours returns the duration of the longest trace in hours.
func (p *Pool) countHours() float64 { return float64(p.hours[len(p.hours)-1].to / hourMS) }

// usedHours returns the total GPU-hours of all schedules.
func (p *Pool) usedHours() float64 {
	sum := 0.0
	for i := range p.Members {
		m := &p.Members[i]
		sum += m.schedule.countGPUHours()
		for k := len(m.schedule.hours); k < len(p.hours); k++ {
			sum += float64(p.hours[k].gpus[i]) * float64((p.hours[k].to-p.hours[k].from)/hourMS)
		}
	}
	return sum
}

// price returns the price of a GPU per hour.
func (p *Pool) price() float64 { return p.Members[0].schedule.price }

// perDay converts a total over the duration of the traces to a value per 24 hours.
func (p *Pool) perDay(hours float64) float64 {
	covered := p.countHours()
	if covered == 0 {
		return 0
	}
	return hours / covered * dayHours
}

// writeWays writes a table that compares shared GPUs with fixed sizes.
func (p *Pool) writeWays(b *strings.Builder) {
	t := table.NewLeft("size", "GPUs", "GPU-hours/day", "cost/day")
	needed, _ := p.Needed()
	for _, way := range []struct {
		name string
		gpus int
		day  float64
	}{{"shared by the hour", needed, p.perDay(p.usedHours())}, {"fixed, each by itself", p.fixed(), dayHours * float64(p.fixed())}} {
		t.Add(way.name, strconv.Itoa(way.gpus), fmt.Sprintf("%.1f", way.day), fmt.Sprintf("%.2f", way.day*p.price()))
	}
	if p.price() == 0 {
		t.Remove(3)
	}
	b.WriteString(t.Text())
}

// PoolDocument is a pool as JSON.
type PoolDocument struct {
	GPUs     int              `json:"gpus"`
	Needed   int              `json:"gpus_needed"`
	NeededIn int              `json:"gpus_needed_in_hour"`
	Fixed    int              `json:"gpus_fixed"` // GPUs if each deployment has the GPUs of its busiest hour in all hours
	Found    bool             `json:"found"`
	Refusal  string           `json:"refusal,omitempty"` // reason for which the pool is not sufficient
	PerDay   float64          `json:"gpu_hours_per_day"`
	Cost     float64          `json:"cost_per_day,omitempty"` // absent without a price
	Members  []memberDocument `json:"deployments"`
	Hours    []poolHour       `json:"hours"`
}

type memberDocument struct {
	Deployment string         `json:"deployment"`
	Trace      string         `json:"trace"`
	Factor     float64        `json:"pass_time_factor"`
	Met        bool           `json:"met"`
	Missed     string         `json:"missed,omitempty"`
	Hours      []hourDocument `json:"hours"`
}

type poolHour struct {
	FromS   float64 `json:"from_s"`
	ToS     float64 `json:"to_s"`
	GPUs    []int   `json:"gpus"` // by deployment
	Total   int     `json:"gpus_in_use"`
	AtStart int     `json:"gpus_at_start"` // while new workers of the hour start
	Free    int     `json:"gpus_free"`
}

// Document returns the pool as a JSON document.
func (p *Pool) Document() *PoolDocument {
	d := &PoolDocument{GPUs: p.GPUs, Fixed: p.fixed(), Found: p.Fits(), Refusal: p.Refusal(), PerDay: p.perDay(p.usedHours())}
	d.Needed, d.NeededIn = p.Needed()
	d.Cost = d.PerDay * p.price()
	for i := range p.Members {
		m := &p.Members[i]
		d.Members = append(d.Members, memberDocument{m.Name, m.Trace, m.Factor, m.met, m.missed, m.schedule.Document("", m.Factor).Hours})
	}
	for k := range p.hours {
		one := &p.hours[k]
		d.Hours = append(d.Hours, poolHour{float64(one.from) / 1000, float64(one.to) / 1000, one.gpus, one.total, one.needs(), p.GPUs - one.needs()})
	}
	return d
}
