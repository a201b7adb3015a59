package autoscale

import (
	"fmt"

	"github.com/replay-llm/replay/sim"
)

// Predictor is a method to predict a load.
type Predictor string

const (
	Constant    Predictor = "constant"     // the latest value
	Linear      Predictor = "linear"       // a least-squares line
	Seasonal    Predictor = "seasonal"     // the value one period ago
	HoltWinters Predictor = "holt_winters" // smoothed level, trend and season
)

// Predictors returns all predictors.
func Predictors() []Predictor { return []Predictor{Constant, Linear, Seasonal, HoltWinters} }

// Forecast configures the prediction of a load.
type Forecast struct {
	Predictor Predictor `yaml:"predictor" is:"predictor" of:"predict"`
	Window    int       `yaml:"window" is:"2..100000" of:"predict"`    // number of ticks for the least-squares line
	Horizon   sim.Time  `yaml:"horizon" of:"predict"`                  // time ahead of now; 0: one tick
	Period    sim.Time  `json:",omitempty" yaml:"period" of:"predict"` // of the season
	// Level, Trend and Season are smoothing factors from 0 to 1.
	Level  float64 `yaml:"smoothing.level" of:"predict"`
	Trend  float64 `yaml:"smoothing.trend" of:"predict"`
	Season float64 `yaml:"smoothing.season" of:"predict"`
}

// ticks returns the number of ticks in a time, rounded up, at least 1.
func (c *Config) ticks(t sim.Time) int { return max(roundUp(float64(t/c.Sync)), 1) }

// predict divides the predicted load by the capacity of a worker, like Dynamo's planner (docs/autoscaling.md,
// Predict).
type predict struct {
	governor
	reason
	last  Scrape    // scrape of the previous tick
	loads []float64 // load of each tick so far
	// arrived is the number of arrived requests so far, and inFlight the integral of requests in flight over time, in ms.
	arrived, inFlight float64
}

// Want returns the number of workers.
func (p *predict) Want(s *Signals) int {
	if s.At <= p.last.At {
		p.why = "nothing new has been read"
		return s.Workers
	}
	l := p.c.Load
	p.loads = append(p.loads, s.since(&p.last, l.Metric))
	length := float64(s.At - p.last.At)
	p.arrived += float64(s.Arrived - p.last.Arrived)
	p.inFlight += float64(length * float64(s.Running+s.Waiting+s.Held))
	p.last = s.Scrape
	p.last.Each = nil
	perWorker := l.PerWorker
	if perWorker == 0 {
		if perWorker = p.measure(); perWorker == 0 {
			p.why = "what a worker can take is not known yet"
			return s.Workers
		}
	}
	load := max(p.c.foresee(p.loads), 0)
	n := l.workersFor(load, perWorker)
	to, held := p.govern(s, n, p.c.Min)
	p.why = fmt.Sprintf("%s was %.4g, %.4g is foreseen, a worker takes %.4g: %d%s", l.Metric, p.loads[len(p.loads)-1], load, perWorker, n, held)
	return to
}

// measure returns the requests per second of a worker with the configured number in flight. By Little's law, it is
// that number divided by the mean time of a request so far. 0: unknown.
func (p *predict) measure() float64 {
	if p.arrived == 0 || p.inFlight == 0 {
		return 0
	}
	return p.c.Load.InFlight * p.arrived / (p.inFlight / 1000)
}

// foresee returns the predicted load at the horizon.
func (c *Config) foresee(y []float64) float64 {
	f := c.Forecast
	ahead := c.ticks(f.Horizon)
	switch f.Predictor {
	case Linear:
		return extendLine(y[max(len(y)-f.Window, 0):], ahead)
	case Seasonal:
		return repeatSeason(y, c.ticks(f.Period), ahead)
	case HoltWinters:
		return f.smooth(y, c.ticks(f.Period), ahead)
	}
	return y[len(y)-1]
}

// extendLine extrapolates the least-squares line through y.
func extendLine(y []float64, ahead int) float64 {
	n := float64(len(y))
	if n < 2 {
		return y[len(y)-1]
	}
	middle, mean := (n-1)/2, 0.0
	for _, v := range y {
		mean += v
	}
	mean /= n
	var xy, xx float64
	for i, v := range y {
		x := float64(i) - middle
		xy += float64(x * (v - mean))
		xx += float64(x * x)
	}
	return mean + float64(xy/xx*(n-1+float64(ahead)-middle))
}

// repeatSeason returns the value at the same position of the latest period. Before the end of the first period,
// repeatSeason returns the latest value.
func repeatSeason(y []float64, period, ahead int) float64 {
	i := len(y) - 1 + ahead
	for i >= len(y) {
		i -= period
	}
	if i < 0 {
		return y[len(y)-1]
	}
	return y[i]
}

// smooth is the additive Holt-Winters method. The first two periods set the initial level, trend and season. Before
// the end of these periods, the forecast repeats the season.
func (f *Forecast) smooth(y []float64, period, ahead int) float64 {
	if len(y) < 2*period {
		return repeatSeason(y, period, ahead)
	}
	var level, trend float64
	for i := range period {
		level += y[i]
		trend += y[period+i] - y[i]
	}
	level /= float64(period)
	trend /= float64(period * period)
	season := make([]float64, period)
	for i := range period {
		season[i] = y[i] - level
	}
	for i := period; i < len(y); i++ {
		s := &season[i%period]
		old := level
		level = float64(f.Level*(y[i]-*s)) + float64((1-f.Level)*(level+trend))
		trend = float64(f.Trend*(level-old)) + float64((1-f.Trend)*trend)
		*s = float64(f.Season*(y[i]-level)) + float64((1-f.Season)**s)
	}
	return level + float64(float64(ahead)*trend) + season[(len(y)-1+ahead)%period]
}
