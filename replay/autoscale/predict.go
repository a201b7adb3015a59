package autoscale

import (
	"fmt"

	"github.com/replay-llm/replay/sim"
)

// Predictor is a way to foresee a load.
type Predictor string

const (
	Constant    Predictor = "constant"     // as it was
	Linear      Predictor = "linear"       // along the line of least squares
	Seasonal    Predictor = "seasonal"     // as it was a period ago
	HoltWinters Predictor = "holt_winters" // level, trend and season, smoothed
)

// Predictors returns all of them.
func Predictors() []Predictor { return []Predictor{Constant, Linear, Seasonal, HoltWinters} }

// Forecast is how a load is foreseen.
type Forecast struct {
	Predictor Predictor `yaml:"predictor" is:"predictor" of:"predict"`
	Window    int       `yaml:"window" is:"2..100000" of:"predict"`    // ticks over which a line is laid
	Horizon   sim.Time  `yaml:"horizon" of:"predict"`                  // how far it looks ahead; 0: a tick
	Period    sim.Time  `json:",omitempty" yaml:"period" of:"predict"` // of the season
	Level     float64   `yaml:"smoothing.level" of:"predict"`          // how much of each tick enters the level, the trend and the season
	Trend     float64   `yaml:"smoothing.trend" of:"predict"`
	Season    float64   `yaml:"smoothing.season" of:"predict"`
}

// ticks returns how many ticks a time has, at least 1, rounded up.
func (c *Config) ticks(t sim.Time) int { return max(roundUp(float64(t/c.Sync)), 1) }

// predict divides the load that it foresees by what a worker can take, as Dynamo's planner does
// (docs/autoscaling.md, Predict).
type predict struct {
	governor
	reason
	last  Scrape    // of the tick before
	loads []float64 // of each tick so far
	// Of the whole time so far: requests that arrived and requests on workers times ms.
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

// measure returns the requests in a second that a worker takes with the wanted number on it: by
// Little's law that number, divided by the time that a request has spent so far. 0: not known.
func (p *predict) measure() float64 {
	if p.arrived == 0 || p.inFlight == 0 {
		return 0
	}
	return p.c.Load.InFlight * p.arrived / (p.inFlight / 1000)
}

// foresee returns the load of the tick that lies the horizon ahead.
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

// extendLine lays a line of least squares through y and follows it.
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

// repeatSeason returns the value at the same place of the latest period of that many ticks; until there is one, the
// latest.
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

// smooth is Holt's and Winters' additive method: the first two periods give the level, the trend
// and the season to begin with. Until they are over it repeats the season.
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
