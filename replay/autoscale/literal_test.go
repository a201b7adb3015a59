package autoscale

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// literal implements rate and predict literally by docs/rules/router.md "Rate and predict". The literal computation
// of every tick uses all ticks so far.
type literal struct {
	c     *Config
	ticks []Signals // so far
	want  []int     // requested numbers by tick, before windows and bounds
	given []int     // results
}

func (l *literal) answer(s Signals) int {
	l.ticks = append(l.ticks, s)
	n, known := l.count()
	if !known {
		l.want, l.given = append(l.want, -1), append(l.given, s.Workers)
		return s.Workers
	}
	l.want = append(l.want, n)
	to := min(max(l.steady(n), l.c.Min), l.c.Max)
	l.given = append(l.given, to)
	return to
}

// steady returns n limited by the windows: at most their minimum and at least their maximum.
func (l *literal) steady(n int) int {
	now := l.ticks[len(l.ticks)-1]
	up, down := n, n
	first := true
	for i, w := range l.want {
		if w < 0 {
			continue
		}
		if first { // the number at the first counted tick is also requested
			first = false
			if age := now.Now - l.ticks[i].Now; age < l.c.Up.Window {
				up = min(up, l.ticks[i].Workers)
			}
			if age := now.Now - l.ticks[i].Now; age < l.c.Down.Window {
				down = max(down, l.ticks[i].Workers)
			}
		}
		age := now.Now - l.ticks[i].Now
		if age < l.c.Up.Window {
			up = min(up, w)
		}
		if age < l.c.Down.Window {
			down = max(down, w)
		}
	}
	return min(max(now.Workers, up), down)
}

// count returns the number of workers for the load. known is false if the load is unknown.
func (l *literal) count() (n int, known bool) {
	now := l.ticks[len(l.ticks)-1]
	if l.c.Kind == ByRate {
		if now.At == 0 {
			return 0, false
		}
		load := map[Metric]float64{Rate: now.Rate, InputRate: now.InputRate, OutputRate: now.OutputRate}[l.c.Load.Metric]
		return l.ceil(load, l.c.Load.PerWorker), true
	}
	var y []float64
	var last sim.Time
	var old Scrape
	arrived, stay := 0.0, 0.0
	new := false
	for i := range l.ticks {
		s := l.ticks[i].Scrape
		if new = s.At > last; !new {
			continue
		}
		seconds := float64(s.At-last) / 1000
		count := map[Metric]int{Rate: s.Arrived - old.Arrived, InputRate: s.Input - old.Input, OutputRate: s.Output - old.Output}[l.c.Load.Metric]
		y = append(y, float64(count)/seconds)
		arrived += float64(s.Arrived - old.Arrived)
		stay += float64(float64(s.At-last) * float64(s.Running+s.Waiting+s.Held))
		last, old = s.At, s
	}
	if !new {
		return 0, false
	}
	per := l.c.Load.PerWorker
	if per == 0 {
		if arrived == 0 || stay == 0 {
			return 0, false
		}
		per = l.c.Load.InFlight * arrived / (stay / 1000)
	}
	return l.ceil(max(l.foresee(y), 0), per), true
}

func (l *literal) ceil(load, per float64) int {
	return int(math.Ceil(min(max(load, 0)*(1+l.c.Load.Headroom)/per, MostWorkers) - 1e-9))
}

// foresee returns the predicted load at the horizon.
func (l *literal) foresee(y []float64) float64 {
	f := l.c.Forecast
	inTicks := func(t sim.Time) int { return max(1, int(math.Ceil(float64(t/l.c.Sync)-1e-9))) }
	ahead, period := inTicks(f.Horizon), inTicks(f.Period)
	latest := y[len(y)-1]
	switch f.Predictor {
	case Linear:
		// The normal equations of v = a + b x, solved for a and b.
		v := y[max(0, len(y)-f.Window):]
		var n, sx, sy, sxx, sxy float64
		for i, value := range v {
			x := float64(i)
			n, sx, sy, sxx, sxy = n+1, sx+x, sy+value, sxx+x*x, sxy+x*value
		}
		if n < 2 {
			return latest
		}
		b := (n*sxy - sx*sy) / (n*sxx - sx*sx)
		return (sy-b*sx)/n + b*(n-1+float64(ahead))
	case Seasonal:
		return l.season(y, period, ahead)
	case HoltWinters:
		if len(y) < 2*period {
			return l.season(y, period, ahead)
		}
		first, second := 0.0, 0.0
		for i := range period {
			first, second = first+y[i], second+y[period+i]
		}
		level, trend := first/float64(period), (second-first)/float64(period*period)
		seasons := map[int]float64{} // by tick
		for i := range period {
			seasons[i] = y[i] - level
		}
		for i := period; i < len(y); i++ {
			next := f.Level*(y[i]-seasons[i-period]) + (1-f.Level)*(level+trend)
			trend = f.Trend*(next-level) + (1-f.Trend)*trend
			level = next
			seasons[i] = f.Season*(y[i]-level) + (1-f.Season)*seasons[i-period]
		}
		at := len(y) - 1 + ahead
		for at >= len(y) {
			at -= period
		}
		return level + float64(ahead)*trend + seasons[at]
	}
	return latest
}

func (l *literal) season(y []float64, period, ahead int) float64 {
	at := len(y) - 1 + ahead
	for at >= len(y) {
		at -= period
	}
	if at < 0 {
		return y[len(y)-1]
	}
	return y[at]
}

// drawConfig draws a scaler by rate or by a forecast.
func drawConfig(r *rand.Rand) Config {
	c := Default([]Kind{ByRate, Predict}[r.IntN(2)])
	c.Min, c.Max = 1+r.IntN(3), 4+r.IntN(20)
	c.Load.Metric = Rates()[r.IntN(3)]
	c.Load.Headroom = []float64{0, 0.25, 0.1}[r.IntN(3)]
	c.Load.PerWorker = []float64{0.5, 1, 3.7}[r.IntN(3)]
	c.Up.Window, c.Down.Window = sim.Time(r.IntN(3))*45_000, sim.Time(r.IntN(4))*60_000
	c.Up.Set, c.Down.Set = true, true
	if c.Kind == ByRate {
		return c
	}
	c.Sync = sim.Time(1+r.IntN(4)) * 15_000
	f := c.Forecast
	f.Predictor = Predictors()[r.IntN(4)]
	f.Window, f.Horizon = 2+r.IntN(6), sim.Time(r.IntN(90_000))
	f.Level, f.Trend, f.Season = r.Float64(), r.Float64(), r.Float64()
	if f.Predictor == Seasonal || f.Predictor == HoltWinters {
		f.Period = c.Sync * sim.Time(2+r.IntN(5))
	}
	if c.Load.Metric == Rate && r.IntN(2) == 0 {
		c.Load.PerWorker, c.Load.InFlight = 0, float64(1+r.IntN(8))
	}
	return c
}

// TestRateAndPredictAreLiteral compares rate and predict with their literal rules on 500 random clusters.
func TestRateAndPredictAreLiteral(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := drawConfig(r)
		if err := c.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		scaler, twin := New(&c), &literal{c: &c}
		s := Signals{Workers: r.IntN(c.Max + 1)}
		for tick := range 40 {
			s.Now = c.Sync * sim.Time(tick)
			if r.IntN(6) > 0 { // if not, no new scrape is known
				s.At = max(s.Now-sim.Time(r.IntN(5_000)), s.At)
			}
			if s.At > 0 {
				s.Ready = r.IntN(5)
				s.Running, s.Waiting, s.Held = r.IntN(9), r.IntN(9), r.IntN(3)
				s.Arrived, s.Input, s.Output = s.Arrived+r.IntN(200), s.Input+r.IntN(900), s.Output+r.IntN(900)
				s.Rate, s.InputRate, s.OutputRate = float64(r.IntN(100))/7, float64(r.IntN(100))/3, float64(r.IntN(40))
			}
			got, want := scaler.Want(&s), twin.answer(s)
			if got != want {
				t.Fatalf("seed %d, tick %d: %d workers, the rules say %d (%+v)", seed, tick, got, want, c)
			}
			s.Workers = got
		}
	}
}
