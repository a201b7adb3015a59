package schedules

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/sim"
)

// Member is a deployment on a pool of GPUs.
type Member struct {
	Name, Trace string
	Factor      float64 // factor for pass times, relative to the model
	schedule    *ByHour
	met         bool
	missed      string
}

// Pool describes several deployments that share GPUs.
type Pool struct {
	GPUs    int // number of GPUs of the pool
	Members []Member
	hours   []shared
}

// shared has the GPUs of all deployments in an hour.
type shared struct {
	from, to sim.Time
	gpus     []int // by deployment
	total    int
	start    int // GPUs while new workers start and workers of the previous hour still serve; 0: no startup time
}

// Add finds the schedule of a deployment and adds the deployment to the pool.
func (p *Pool) Add(ctx context.Context, r *Runner, w *loadgen.Workload, m Member) error {
	h := &ByHour{startup: r.Startup.Seconds(), price: r.Variant.Price, gpus: r.gpusOf}
	if err := h.cutHours(ctx, r, w, plan.Shape{}); err != nil {
		return err
	}
	measure, err := h.holdSchedule(ctx, r, w)
	m.schedule, m.met, m.missed = h, measure.Met, measure.Missed
	p.Members = append(p.Members, m)
	return err
}

// Share adds up the GPUs of all deployments by hour.
func (p *Pool) Share() {
	p.hours = nil
	for i := range p.Members {
		for k := range p.Members[i].schedule.hours {
			one := &p.Members[i].schedule.hours[k]
			if k == len(p.hours) {
				p.hours = append(p.hours, shared{gpus: make([]int, len(p.Members))})
			}
			p.hours[k].from, p.hours[k].to = one.from, max(p.hours[k].to, one.to)
		}
	}
	for k := range p.hours {
		one := &p.hours[k]
		for i := range p.Members {
			m := &p.Members[i]
			now := m.gpusAt(k)
			one.gpus[i] = now
			one.total += now
			if k > 0 && m.schedule.startup > 0 {
				one.start += max(now, m.gpusAt(k-1))
			}
		}
	}
}

// gpusAt returns the GPUs in an hour. After the end of the trace the deployment has its smallest cluster.
func (m *Member) gpusAt(hour int) int {
	h := m.schedule
	if hour < len(h.hours) {
		return int(h.gpus(h.hours[hour].shape))
	}
	if h.hours[0].shape.Split() {
		return int(h.gpus(plan.Two(1, 1)))
	}
	return int(h.gpus(plan.One(1)))
}

// needs returns the maximum number of GPUs in use during the hour.
func (s *shared) needs() int { return max(s.total, s.start) }

// Needed returns the maximum number of GPUs in use, and the hour of this maximum.
func (p *Pool) Needed() (gpus, hour int) {
	for k := range p.hours {
		if n := p.hours[k].needs(); n > gpus {
			gpus, hour = n, k
		}
	}
	return gpus, hour
}

// fixed returns the total GPUs if each deployment has the GPUs of its busiest hour in all hours.
func (p *Pool) fixed() int {
	sum := 0
	for i := range p.Members {
		most := 0
		for k := range p.hours {
			most = max(most, p.hours[k].gpus[i])
		}
		sum += most
	}
	return sum
}

// Fits reports whether the pool is large enough and all deployments meet the objectives.
func (p *Pool) Fits() bool {
	for i := range p.Members {
		if !p.Members[i].met {
			return false
		}
	}
	needed, _ := p.Needed()
	return needed <= p.GPUs
}

// Refusal returns the reason for which the pool is not sufficient, or "".
func (p *Pool) Refusal() string {
	for i := range p.Members {
		if m := &p.Members[i]; !m.met {
			return fmt.Sprintf("%s does not meet the objectives: %s", m.Name, m.missed)
		}
	}
	needed, hour := p.Needed()
	if needed <= p.GPUs {
		return ""
	}
	var short []int
	for k := range p.hours {
		if p.hours[k].needs() > p.GPUs {
			short = append(short, k)
		}
	}
	text := fmt.Sprintf("the pool of %d GPUs is too small: hour %d needs %d, %d more", p.GPUs, hour, needed, needed-p.GPUs)
	if len(short) > 1 {
		text += fmt.Sprintf("; %d of %d hours need more than there are, first hour %d", len(short), len(p.hours), short[0])
	}
	return text
}
