package generate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/sim"
)

// process generates the arrivals of requests or conversations.
//
// process draws random gaps with mean 1. The sum of the gaps is the expected number of arrivals up to the next
// arrival. Function when converts this number to a time by the rate.
type process struct {
	gap Law
	// when returns the time in ms at which the expected number of arrivals equals arrivals. last is the previous
	// result.
	when     func(arrivals, last float64) float64
	random   *rand.Rand
	sum      float64
	first    bool // with equal gaps, the first request arrives at 0
	last     float64
	duration float64 // ms; 0 means unlimited

	users, begun int // closed loop: number of users, with a conversation each
	spread       float64
}

// newProcess parses an arrival process:
//
//	poisson                         independent exponential gaps
//	gamma:cv=2                      bursts; cv: standard deviation of gaps / mean
//	constant                        equal gaps
//	ramp:to=20                      linear change from the rate to another during the duration
//	diurnal:amplitude=0.8,period=24h,peak=14h
//	                                the rate varies by this share around its mean, as a cosine
//	users:count=50,start=10s        a conversation for each user, started within this time;
//	                                turns follow after the think time
//
// ramp and diurnal have the setting cv, too. The default of cv is 1, as in poisson.
func newProcess(c Config) (*process, error) {
	p := parseParams(c.Arrivals)
	a := &process{random: sim.NewRand(c.Seed, "generate/arrivals"), duration: float64(c.Duration)}
	if p.name == "users" {
		a.users = p.whole("count", math.MaxInt32)
		a.spread = p.milliseconds("start", 0)
		if c.Rate != 0 || c.Duration != 0 {
			p.complain("arrivals by users depend on their think time, remove the rate and the duration")
		}
		return a, p.end()
	}
	if !(c.Rate >= leastRate && c.Rate <= mostRate) {
		return nil, fmt.Errorf("rate is %v requests/s, must be %v to %v", c.Rate, leastRate, mostRate)
	}
	if c.Duration == 0 && c.Requests == 0 {
		return nil, fmt.Errorf("neither duration nor requests are given, must be one of them")
	}
	perMS := c.Rate / 1000
	a.when = func(arrivals, _ float64) float64 { return arrivals / perMS }
	a.gap = exponentialLaw(1)
	switch p.name {
	case "poisson":
	case "constant":
		a.gap, a.first = fixedLaw(1), true
	case "gamma":
		a.gap = gammaLaw(1, p.number("cv", math.NaN(), span{0, mostSpread}))
	case "ramp":
		if c.Duration == 0 {
			p.complain("the duration is 0, expected the time that the ramp takes (--duration)")
		}
		a.when = ramp{perMS, p.number("to", math.NaN(), span{0, mostRate}) / 1000, float64(c.Duration)}.when
		a.gap = gammaLaw(1, p.number("cv", 1, span{0, mostSpread}))
	case "diurnal":
		d := diurnal{rate: perMS, amplitude: p.number("amplitude", 0.5, span{0, 1}), period: p.milliseconds("period", 86400e3), peak: p.milliseconds("peak", 0)}
		if d.amplitude > 1 || !(d.period > 0) {
			p.complain("amplitude is %v and period %v ms, must be 0 to 1 and > 0", d.amplitude, d.period)
		}
		a.when, a.gap = d.when, gammaLaw(1, p.number("cv", 1, span{0, mostSpread}))
	default:
		return nil, excerpt.Errorf("arrivals are %q, must be poisson, gamma, constant, ramp, diurnal or users%s", c.Arrivals, nearest.Ask(p.name, []string{"poisson", "gamma", "constant", "ramp", "diurnal", "users"}))
	}
	return a, p.end()
}

// next returns the next arrival in ms.
func (a *process) next() (at float64, ok bool) {
	if a.users > 0 {
		a.begun++
		return a.spread * float64(a.begun-1) / float64(a.users), a.begun <= a.users
	}
	if a.first {
		a.first = false
	} else {
		a.sum += a.gap.Draw(a.random)
	}
	a.last = a.when(a.sum, a.last)
	return a.last, !(a.duration > 0 && a.last >= a.duration)
}

// turns returns the number of requests of a conversation. In closed loop, the users share the total number of
// requests. Otherwise the number of requests is drawn.
func (a *process) turns(user, drawn, requests int) int {
	if a.users == 0 || requests == 0 {
		return drawn
	}
	n := requests / a.users
	if user < requests%a.users {
		n++
	}
	return n
}

// ramp is a rate that changes linearly from one value per ms to another. After ms the rate stays constant.
type ramp struct{ from, to, ms float64 }

func (r ramp) when(arrivals, _ float64) float64 {
	if all := float64((r.from + r.to) / 2 * r.ms); arrivals > all {
		return r.ms + (arrivals-all)/r.to
	}
	slope := (r.to - r.from) / r.ms
	root := math.Sqrt(max(0, float64(r.from*r.from)+float64(2*slope*arrivals)))
	return 2 * arrivals / (r.from + root)
}

// diurnal is a rate per ms that varies like a cosine.
type diurnal struct{ rate, amplitude, period, peak float64 }

// arrived returns the expected number of arrivals up to a time.
func (d diurnal) arrived(at float64) float64 {
	turn := 2 * math.Pi / d.period
	waves := math.Sin(turn*(at-d.peak)) + math.Sin(turn*d.peak)
	return d.rate * (at + float64(d.amplitude/turn*waves))
}

func (d diurnal) when(arrivals, last float64) float64 {
	low, high := last, last+1
	for d.arrived(high) < arrivals {
		high += 2 * (high - low)
	}
	for {
		mid := low + float64((high-low)/2)
		if mid <= low || mid >= high || high-low < 1e-6 {
			return mid
		}
		if d.arrived(mid) < arrivals {
			low = mid
		} else {
			high = mid
		}
	}
}
