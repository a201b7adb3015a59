package calibrate

import (
	"context"
	"fmt"
	"math"

	"github.com/replay-llm/replay/calibrate/measured"
)

// slowdown is a time of a run in which its server was slower than in the rest of the run. The cause can be another
// process on the server's machine. The zero value is no slowdown.
type slowdown struct {
	from, to float64 // s of the run, by arrival
	apart    bool    // the slowdown is all of the run except the time between from and to
	more     float64 // share by which requests waited longer for their tokens
}

// The constants are conditions for a slowdown. The medians of windows inside and outside a slowdown differ by at least
// the share leastMore. The difference is also at least leastContrast times its standard deviation. There are at least
// fewWindows windows on each side.
const (
	leastWindow   = 10  // s
	mostWindows   = 100 // per run
	fewWindows    = 3
	fewInWindow   = 5 // requests; windows with fewer have no median
	leastMore     = 0.025
	leastContrast = 6
)

// holds reports whether a request with this arrival is in the slowdown.
func (s *slowdown) holds(at float64) bool {
	return s.more > 0 && (at >= s.from && at < s.to) != s.apart
}

// String returns the time of the slowdown.
func (s *slowdown) String() string {
	if s.apart {
		return fmt.Sprintf("before %.0f s and from %.0f s on", s.from, s.to)
	}
	return fmt.Sprintf("from %.0f to %.0f s", s.from, s.to)
}

// exclude returns the chosen requests that are outside the slowdown.
func (s *slowdown) exclude(m *Measured, chosen []int) (rest []int) {
	for _, i := range chosen {
		if !s.holds(m.Requests[i].Arrival) {
			rest = append(rest, i)
		}
	}
	return rest
}

// noteSlowdowns adds a note about the slowdowns that a fit leaves out.
func (r *Result) noteSlowdowns(runs []*Measured, t *training) {
	for i, m := range runs {
		if s := &t.on[i].left; s.more > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %s requests waited %.1f %% longer for their tokens than at other times under as much load: the server was disturbed, and that time is not fitted to", m.Name, s, 100*s.more))
		}
	}
}

// sums holds sums over all values that are not NaN.
type sums struct{ n, total, squares float64 }

func (s *sums) add(values []float64) {
	for _, v := range values {
		if !math.IsNaN(v) {
			s.n, s.total, s.squares = s.n+1, s.total+v, s.squares+float64(v*v)
		}
	}
}

// scatter returns the sum of squared differences from the mean.
func (s *sums) scatter() float64 { return max(s.squares-s.total*s.total/s.n, 0) }

// findSlowdown returns the most significant slowdown of a run. The values in slow are logarithms of the measured to the
// simulated times per token of requests, in the order of arrivals.
func findSlowdown(arrivals, slow []float64) (best slowdown) {
	first, width, windows := medianWindows(arrivals, slow)
	contrast := float64(leastContrast)
	for i := range windows {
		for j := i + fewWindows; j <= len(windows); j++ {
			var in, out sums
			in.add(windows[i:j])
			out.add(windows[:i])
			out.add(windows[j:])
			if min(in.n, out.n) < fewWindows {
				continue
			}
			off := in.total/in.n - out.total/out.n
			wide := math.Sqrt((in.scatter()+out.scatter())/(in.n+out.n-2)*(1/in.n+1/out.n)) + 1e-9
			more := math.Exp(math.Abs(off)) - 1
			if off < 0 && (i == 0 || j == len(windows)) {
				continue // the slow rest is in one piece, so another candidate covers it
			}
			if c := math.Abs(off) / wide; c > contrast && more >= leastMore {
				contrast = c
				best = slowdown{from: first + float64(float64(i)*width), to: first + float64(float64(j)*width), apart: off < 0, more: more}
			}
		}
	}
	return best
}

// medianWindows returns the medians of values over windows of a run. A window with few values has NaN.
func medianWindows(arrivals, values []float64) (first, width float64, medians []float64) {
	if len(arrivals) == 0 {
		return 0, 0, nil
	}
	first = arrivals[0]
	lasts := arrivals[len(arrivals)-1] - first
	width = max(leastWindow, lasts/mostWindows)
	by := make([][]float64, 1+int(lasts/width))
	for k, at := range arrivals {
		i := min(int((at-first)/width), len(by)-1)
		by[i] = append(by[i], values[k])
	}
	for _, v := range by {
		if len(v) < fewInWindow {
			v = nil
		}
		medians = append(medians, measured.QuantileOf(v, 0.5))
	}
	return first, width, medians
}

// slowdownOf returns the slowdown of a run that a comparison with its replay shows. slowdownOf returns no slowdown for
// a closed loop, because its replay has other concurrent requests than the run.
func (m *Measured) slowdownOf(chosen []int, out *Outcome) slowdown {
	if m.InFlight > 0 {
		return slowdown{}
	}
	var arrivals, slow []float64
	tpot := newTarget(m, chosen)
	for j, simulated := range tpot.simulated(1, out) {
		arrivals = append(arrivals, m.Requests[chosen[j]].Arrival)
		slow = append(slow, math.Log(tpot.measured[1][j]/simulated))
	}
	return findSlowdown(arrivals, slow)
}

// excludeSlowdowns excludes from a training the slowdowns of servers that its fit shows. excludeSlowdowns reports
// whether there are any slowdowns.
func (t *training) excludeSlowdowns(sims []*Simulation, runs []*Measured, f *fitted) (found bool, err error) {
	for i, m := range runs {
		chosen := t.on[i].withoutWarmUp(m)
		if len(t.on[i].chosen) == 0 || !m.Client {
			continue
		}
		out := Outcome{Way: f.way}
		if err := sims[i].Run(&f.parameters, &out, nil); err != nil {
			return false, err
		}
		if s := m.slowdownOf(chosen, &out); s.more > 0 {
			t.on[i].left, found = s, true
		}
	}
	return found, nil
}

// fitTraining fits to a training. fitTraining excludes times when servers were disturbed, and simulates slow servers
// at their own pace.
func fitTraining(ctx context.Context, sims []*Simulation, runs []*Measured, t *training) (fitted, error) {
	f, err := fitUndisturbed(ctx, sims, runs, t)
	if err != nil {
		return f, err
	}
	return fitPaces(ctx, sims, runs, t, f)
}

// fitUndisturbed fits to a training. If the fit shows slowdowns of servers, fitUndisturbed fits once more without
// them, because the server is not their cause.
func fitUndisturbed(ctx context.Context, sims []*Simulation, runs []*Measured, t *training) (fitted, error) {
	seen, targets := targetsOf(sims, runs, t.on)
	f, err := fitTargets(ctx, seen, targets)
	if err != nil {
		return f, err
	}
	if found, err := t.excludeSlowdowns(sims, runs, &f); err != nil || !found {
		return f, err
	}
	before := f.runs
	seen, targets = targetsOf(sims, runs, t.on)
	f, err = fitTargets(ctx, seen, targets)
	f.runs += before
	return f, err
}
