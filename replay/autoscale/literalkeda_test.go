package autoscale

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// literalKEDA implements docs/rules/router.md "KEDA" literally. literalKEDA keeps all inputs, and each rule reads all
// inputs.
type literalKEDA struct {
	c      *Config
	asked  []literalAsk
	moved  [2][]literalAsk // recorded increases and decreases; decreases are negative
	reads  []bool          // whether each succeeded
	polls  []sim.Time      // times at which polls were due
	active []sim.Time      // times of polls that found an active trigger
}

// literalAsk is a number of workers at an instant.
type literalAsk struct {
	at sim.Time
	n  int
}

func (l *literalKEDA) answer(s *Signals) int {
	if len(l.polls) == 0 {
		l.asked = append(l.asked, literalAsk{s.Now, s.Workers})
	}
	n := l.first(s)
	if len(l.polls) == 0 {
		l.polls = append(l.polls, s.Now)
		return l.poll(s, n)
	}
	due := l.polls[len(l.polls)-1] + l.c.Polling
	if s.Now < due {
		return n
	}
	for due+l.c.Polling <= s.Now {
		due += l.c.Polling
	}
	l.polls = append(l.polls, due)
	return l.poll(s, n)
}

// first applies the rules of every tick (13.2 to 13.5).
func (l *literalKEDA) first(s *Signals) int {
	now, least := s.Workers, max(l.c.Min, 1)
	if now == 0 {
		return 0
	}
	if now < least || now > l.c.Max {
		return l.move(s, min(max(now, least), l.c.Max))
	}
	known := l.read(s)
	if !known && !l.isFallback() {
		return now
	}
	most := 0
	for _, t := range l.c.Targets {
		sum, threshold := l.thousandths(s.Sum(t.Metric)), max(l.thousandths(t.Value), 1)
		if !known {
			sum = threshold * int64(l.c.Fallback.Workers)
		}
		up, down := l.c.Tolerance, l.c.Tolerance
		if x := l.c.Up.Tolerance; x != nil {
			up = *x
		}
		if x := l.c.Down.Tolerance; x != nil {
			down = *x
		}
		n := int((sum + threshold - 1) / threshold)
		if ratio := float64(sum) / (float64(threshold) * float64(now)); 1-down <= ratio && ratio <= 1+up {
			n = now
		}
		most = max(most, n)
	}
	n := l.limit(s, most)
	return l.move(s, min(max(n, least), l.c.Max))
}

// read reads the triggers and reports success.
func (l *literalKEDA) read(s *Signals) bool {
	l.reads = append(l.reads, s.At > 0)
	return s.At > 0
}

// isFallback reports whether more consecutive reads have failed than the file allows.
func (l *literalKEDA) isFallback() bool {
	failed := 0
	for _, ok := range l.reads {
		if failed++; ok {
			failed = 0
		}
	}
	return l.c.Fallback != nil && failed > l.c.Fallback.Failures
}

// thousandths formats a number with three decimals and removes the point.
func (l *literalKEDA) thousandths(x float64) int64 {
	n, err := strconv.ParseInt(strings.Replace(strconv.FormatFloat(x, 'f', 3, 64), ".", "", 1), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// move records an increase or a decrease.
func (l *literalKEDA) move(s *Signals, to int) int {
	list, b := &l.moved[0], &l.c.Up
	switch {
	case to == s.Workers:
		return to
	case to < s.Workers:
		list, b = &l.moved[1], &l.c.Down
	}
	longest, old := sim.Time(0), -1
	for _, p := range b.Policies {
		longest = max(longest, p.Period)
	}
	for i, m := range *list {
		if s.Now-m.at > longest {
			old = i
		}
	}
	if entry := (literalAsk{s.Now, to - s.Workers}); old >= 0 {
		(*list)[old] = entry
	} else {
		*list = append(*list, entry)
	}
	return to
}

// limit applies "Windows and policies" of docs/rules/router.md.
func (l *literalKEDA) limit(s *Signals, n int) int {
	l.asked = append(l.asked, literalAsk{s.Now, n})
	now := s.Workers
	if !l.c.Up.Set && !l.c.Down.Set {
		most := n
		for _, a := range l.asked {
			if s.Now-a.at <= 300_000 {
				most = max(most, a.n)
			}
		}
		return min(most, max(2*now, 4))
	}
	up, down := n, n
	for _, a := range l.asked {
		if s.Now-a.at < l.c.Up.Window {
			up = min(up, a.n)
		}
		if s.Now-a.at < l.c.Down.Window {
			down = max(down, a.n)
		}
	}
	to := now
	if up > to {
		to = up
	}
	if down < to {
		to = down
	}
	switch b := &l.c.Up; {
	case to > now && b.Off, to < now && l.c.Down.Off:
		return now
	case to > now:
		allowed := l.allow(s, b, func(p *Policy, begin int) int {
			if p.Workers > 0 {
				return begin + p.Workers
			}
			return int(math.Ceil(float64(begin) * (1 + p.Percent/100)))
		})
		for i, most := range allowed {
			if i == 0 || (most > allowed[0]) != b.Least {
				allowed[0] = most
			}
		}
		if len(allowed) > 0 {
			to = max(min(to, allowed[0]), now)
		}
	case to < now:
		b = &l.c.Down
		allowed := l.allow(s, b, func(p *Policy, begin int) int {
			if p.Workers > 0 {
				return begin - p.Workers
			}
			return int(float64(begin) * (1 - p.Percent/100))
		})
		for i, fewest := range allowed {
			if i == 0 || (fewest < allowed[0]) != b.Least {
				allowed[0] = fewest
			}
		}
		if len(allowed) > 0 {
			to = min(max(to, allowed[0]), now)
		}
	}
	return to
}

// allow returns the number that each policy allows, from the number at the start of its period.
func (l *literalKEDA) allow(s *Signals, b *Behavior, by func(*Policy, int) int) (all []int) {
	for i := range b.Policies {
		begin := s.Workers
		for _, m := range slices.Concat(l.moved[0], l.moved[1]) {
			if s.Now-m.at < b.Policies[i].Period {
				begin -= m.n
			}
		}
		all = append(all, by(&b.Policies[i], begin))
	}
	return all
}

// poll applies the rules of a poll (13.7 and 13.8).
func (l *literalKEDA) poll(s *Signals, n int) int {
	known := l.read(s)
	active := !known && l.isFallback()
	for _, t := range l.c.Targets {
		active = active || known && s.Sum(t.Metric) > t.Activation
	}
	if active {
		l.active = append(l.active, s.Now)
		if n == 0 {
			return max(l.c.Min, 1)
		}
		return n
	}
	if !known && (l.c.Fallback == nil || l.c.Fallback.Workers > 0) {
		return n
	}
	rest := len(l.active) == 0 || s.Now-l.active[len(l.active)-1] >= l.c.Cooldown
	switch {
	case l.c.Idle != nil && n > *l.c.Idle:
		if rest {
			return *l.c.Idle
		}
	case l.c.Min == 0 && n > 0:
		if rest {
			return 0
		}
	case l.c.Idle == nil && n < l.c.Min:
		return l.c.Min
	}
	return n
}

// drawKEDA draws a configuration of KEDA.
func drawKEDA(r *rand.Rand) Config {
	c := Default(KEDA)
	c.Min, c.Max = r.IntN(4), 4+r.IntN(20)
	c.Tolerance = []float64{0, 0.1, 0.3}[r.IntN(3)]
	c.Polling, c.Cooldown = sim.Time(1+r.IntN(8))*7_000, sim.Time(r.IntN(6))*30_000
	c.Targets = []Target{{Metric: Held, Value: []float64{1, 0.0004, 2.7}[r.IntN(3)], Activation: float64(r.IntN(3))}}
	for range r.IntN(3) {
		c.Targets = append(c.Targets, Target{Metric: []Metric{InFlight, Waiting, Rate, KVUsage}[r.IntN(4)], Value: float64(1+r.IntN(80)) / 9, Activation: float64(r.IntN(8))})
	}
	if c.Min > 0 && r.IntN(2) == 0 {
		idle := r.IntN(c.Min)
		c.Idle = &idle
	}
	if r.IntN(2) == 0 {
		c.Fallback = &Fallback{Failures: r.IntN(4), Workers: r.IntN(6)}
	}
	if r.IntN(3) == 0 {
		return c
	}
	for _, b := range []*Behavior{&c.Up, &c.Down} {
		b.Set, b.Window = r.IntN(3) > 0, sim.Time(r.IntN(4))*45_000
		b.Off, b.Least = r.IntN(8) == 0, r.IntN(3) == 0
		if r.IntN(3) == 0 {
			x := float64(r.IntN(4)) / 10
			b.Tolerance = &x
		}
		if r.IntN(3) == 0 {
			continue
		}
		b.Policies = nil
		for range r.IntN(3) {
			p := Policy{Workers: 1 + r.IntN(4), Period: sim.Time(1+r.IntN(8)) * 15_000}
			if r.IntN(2) == 0 {
				p.Workers, p.Percent = 0, float64(10+r.IntN(190))
			}
			b.Policies = append(b.Policies, p)
		}
	}
	return c
}

// TestKEDAIsLiteral compares KEDA's scaler with its literal rules on 500 random clusters.
func TestKEDAIsLiteral(t *testing.T) {
	changes, none := 0, 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		c := drawKEDA(r)
		if err := c.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		scaler, twin := New(&c), &literalKEDA{c: &c}
		s := Signals{Workers: r.IntN(c.Max + 2)}
		from, quiet := r.IntN(12), 0 // number of ticks without a scrape, and without a load
		for tick := range 60 {
			s.Now = c.Sync * sim.Time(tick)
			if tick >= from {
				s.At = s.Now + 1
			}
			if quiet--; quiet < -6 && r.IntN(4) == 0 {
				quiet = r.IntN(25)
			}
			s.Running, s.Waiting, s.Held, s.Rate, s.KV = 0, 0, 0, 0, 0
			if quiet < 0 && s.At > 0 {
				s.Running, s.Waiting, s.Held = r.IntN(40), r.IntN(20), r.IntN(9)
				s.Rate, s.KV = float64(r.IntN(100))/7, float64(s.Workers)*r.Float64()
			}
			got, want := scaler.Want(&s), twin.answer(&s)
			if got != want {
				t.Fatalf("seed %d, tick %d: %d workers, the rules say %d (%+v)", seed, tick, got, want, c)
			}
			if got != s.Workers {
				changes++
			}
			if got == 0 {
				none++
			}
			if s.Workers = got; r.IntN(40) == 0 { // the number is set from outside
				s.Workers = r.IntN(c.Max + 2)
			}
		}
	}
	if changes < 2000 || none < 2000 {
		t.Errorf("%d changes and %d ticks without a worker, must be at least 2000 of both", changes, none)
	}
}
