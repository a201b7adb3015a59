package calibrate

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/scheduler/timing"
)

// point is a point in the space of a form's parameters: the logarithms of their ratios to the start.
type point struct {
	u    []float64
	loss float64
}

// candidate is a point together with its form.
type candidate struct {
	point
	form Form
}

// fitted is the result of a search.
type fitted struct {
	candidate
	parameters timing.Parameters
	way        timing.Way
	start      timing.Parameters
	runs       int // number of simulations
}

// search searches for the parameters of one form on its targets.
type search struct {
	ctx    context.Context
	trials []*trial
	form   Form
	start  timing.Parameters
	floor  timing.Parameters // physical lower limits
	client bool              // a client measured the times, so a way is fitted
	free   bool              // parameters are not drawn more strongly to the start if a client measured the times

	recorded bool // the work of passes is recorded
	runs     int  // number of simulations so far
	err      error
}

// trial is a run that a search uses.
type trial struct {
	sim    *Simulation
	target *target
	out    Outcome
	record ledger
}

// newSearch prepares a search on targets. Each target has the simulation of its run.
func newSearch(ctx context.Context, sims []*Simulation, targets []*target) *search {
	s := &search{ctx: ctx, client: true}
	for i, sim := range sims {
		s.trials = append(s.trials, &trial{sim: sim, target: targets[i]})
		s.client = s.client && targets[i].run.Client
	}
	if s.start = measured.StartParameters(&sims[0].settings); sims[0].stage != nil {
		s.start = startOwn(&sims[0].settings, targets)
	}
	return s
}

// isReferences reports whether the scheduler follows the rules of the reference. The reference does not compute times
// of whole passes.
func (s *search) isReferences() bool { return s.trials[0].sim.rules.Reference() }

// isVLLMs reports whether the scheduler is vLLM's.
func (s *search) isVLLMs() bool { return s.trials[0].sim.stage == nil }

// simulate replays all runs with the parameters at u.
func (s *search) simulate(u []float64) error {
	p, way := s.form.parametersAt(&s.start, u), s.form.frontEndAt(u)
	for _, t := range s.trials {
		s.runs++
		t.out.Way = way
		record := &t.record
		if !s.recorded {
			record = nil
		}
		if err := t.sim.runRecorded(&p, &t.out, record); err != nil {
			return err
		}
	}
	return nil
}

// spreadWeight and clientWeight draw undetermined parameters to the start. clientWeight is larger because a client's
// times determine less than an engine's times.
const (
	spreadWeight = 0.001
	clientWeight = 0.5
)

// pullWeight returns the weight that draws a parameter to the start.
func (s *search) pullWeight(name string) float64 {
	if (s.client || s.form.keeps) && !s.free && !s.form.isFree(name) {
		return clientWeight
	}
	return spreadWeight
}

// pullOf returns the addition to the loss for the distance of u from the start.
func (s *search) pullOf(u []float64) float64 {
	pull, centre := 0.0, s.centreOf(u)
	for i, x := range u {
		if name := s.form.Fields[i]; !s.form.isFree(name) {
			x -= centre
		}
		pull += float64(s.pullWeight(s.form.Fields[i]) * squareOf(x))
	}
	return pull
}

// centreOf returns the centre for the distances of pass parameters from the start. If a client measured the times,
// only the runs determine the overall speed of the GPU, so the centre is the mean of these parameters.
func (s *search) centreOf(u []float64) float64 {
	if !s.client {
		return 0
	}
	sum, n := 0.0, 0
	for i, x := range u {
		if !s.form.isFree(s.form.Fields[i]) {
			sum += x
			n++
		}
	}
	return sum / float64(n)
}

// loss returns the loss of the simulation at u.
func (s *search) loss(u []float64) float64 {
	for _, x := range u {
		if math.Abs(x) > 5 {
			return math.MaxFloat64
		}
	}
	pull := s.pullOf(u)
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return math.MaxFloat64
	}
	if p := s.form.parametersAt(&s.start, u); isBelow(&p, &s.floor) {
		return math.MaxFloat64
	}
	if s.err = s.simulate(u); s.err != nil {
		return math.MaxFloat64
	}
	total := 0.0
	for _, t := range s.trials {
		total += t.target.loss(&t.out)
	}
	return total/float64(len(s.trials)) + pull
}

// setWeight sets the weight of the errors of means.
func (s *search) setWeight(weight float64) {
	for _, t := range s.trials {
		t.target.weight = weight
	}
}

// misses returns the relative errors of the means of all runs.
func (s *search) misses() []float64 {
	var all []float64
	for _, t := range s.trials {
		all = append(all, t.target.misses(&t.out)...)
	}
	return all
}

// descendSimplex moves a simplex with edges of the given length from a point. descendSimplex returns the best point
// within a number of simulations.
func (s *search) descendSimplex(from point, edge float64, runs int) point {
	if s.err != nil {
		return from
	}
	settings := &optimize.Settings{
		InitValues: &optimize.Location{F: from.loss}, FuncEvaluations: runs - 1, Converger: optimize.NeverTerminate{},
	}
	r, err := optimize.Minimize(optimize.Problem{Func: s.loss}, from.u, settings, &optimize.NelderMead{SimplexSize: edge})
	s.err = cmp.Or(s.err, err)
	if s.err == nil && r.F < from.loss {
		return point{slices.Clone(r.X), r.F}
	}
	return from
}

// scaleStart multiplies all parameters by one factor until the mean times match the measured ones. The scale of the
// measurements then does not matter.
func (s *search) scaleStart() point {
	u := make([]float64, len(s.form.Fields))
	for range 6 {
		if s.err == nil {
			s.err = s.simulate(u)
		}
		if s.err != nil {
			break
		}
		ratio := 0.0
		for _, t := range s.trials {
			for k := range t.target.measured {
				ratio += math.Log(t.target.mean[k] / measured.MeanOf(t.target.simulated(k, &t.out)))
			}
		}
		ratio /= float64(3 * len(s.trials))
		if math.Abs(ratio) < 0.01 {
			break
		}
		for i := range u {
			if !isOfFrontEnd(s.form.Fields[i]) {
				u[i] += 0.8 * ratio
			}
		}
		s.raiseToFloor(u)
	}
	return point{u, s.loss(u)}
}

// The constants are the edges of the simplexes in the stages of a search, and the numbers of simulations.
const (
	wideEdge, wideRuns = 0.2, 40
	fineEdge, fineRuns = 0.1, 120
	lastEdge, lastRuns = 0.03, 100
	moreRuns           = 30
	// worth is the share by which an additional parameter must reduce the loss.
	worth = 0.15
	// hopeless is a multiple of the least loss. A form with a larger loss is not extended by further parameters.
	hopeless = 1.5
)

// fitTargets finds the parameters with which the simulated requests best match the chosen measured ones of each run.
// fitTargets first descends for each form by the effects of parameters, then from the best form by trial. Finally,
// fitTargets corrects the means.
func fitTargets(ctx context.Context, sims []*Simulation, targets []*target) (fitted, error) {
	s := newSearch(ctx, sims, targets)
	f, err := s.findFit()
	floor := floorParameters(&sims[0].settings)
	if err != nil || s.isReferences() || !isBelow(&f.parameters, &floor) {
		return f, err // a pass of the reference is not what a server runs, so its parameters have no physical limit
	}
	s.floor = floor // no GPU is so fast, so the search is repeated with the limit
	s.setWeight(meanWeight)
	return s.findFit()
}

// findFit does a complete search.
func (s *search) findFit() (fitted, error) {
	if s.form.keeps = !s.isVLLMs(); s.form.keeps {
		return s.findOwn()
	}
	best := s.findCandidate()
	s.form = best.form
	for _, stage := range []struct {
		edge   float64
		runs   int
		weight float64
	}{{fineEdge, fineRuns, meanWeight}, {lastEdge, lastRuns, lastWeight}} {
		s.setWeight(stage.weight)
		best.loss = s.loss(best.u)
		best.point = s.descendSimplex(best.point, stage.edge, stage.runs)
	}
	best.point = s.polishMeans(best.point)
	return fitted{best, s.form.parametersAt(&s.start, best.u), s.form.frontEndAt(best.u), s.start, s.runs}, s.err
}

// findCandidate returns the best of all forms. A form with more parameters must be clearly better than a form with
// fewer.
func (s *search) findCandidate() candidate {
	var plain []candidate
	for _, f := range s.plainForms() {
		s.form = f
		p := s.newtonFromThree(s.scaleStart())
		plain = append(plain, candidate{s.descendSimplex(p, wideEdge, wideRuns), f})
	}
	best := leastLoss(plain)
	for more := plain; ; more = []candidate{best} {
		var wider []candidate
		for _, c := range more {
			if c.loss > hopeless*best.loss && !s.isReferences() {
				continue
			}
			for _, f := range s.extensionsOf(&c.form) {
				s.form = f
				wider = append(wider, candidate{s.descendNewton(point{u: append(slices.Clone(c.u), c.firstOf(&f))}), f})
			}
		}
		if len(wider) == 0 || s.err != nil || leastLoss(wider).loss >= (1-worth)*best.loss {
			return best
		}
		best = leastLoss(wider)
		s.form = best.form
		best.point = s.descendSimplex(best.point, fineEdge, moreRuns)
	}
}

// firstOf returns the start value of the last parameter of a wider form. Experts begin at the value of the weights,
// which included the experts. All other parameters begin at the start.
func (c *candidate) firstOf(wider *Form) float64 {
	if wider.Fields[len(wider.Fields)-1] == expertsField {
		return c.u[slices.Index(c.form.Fields, denseField)]
	}
	return 0
}

// leastLoss returns the candidate with the least loss, and the first of several with equal losses.
func leastLoss(all []candidate) candidate {
	return slices.MinFunc(all, func(a, b candidate) int { return cmp.Compare(a.loss, b.loss) })
}
