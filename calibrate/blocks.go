package calibrate

import (
	"context"
	"errors"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/replay-llm/replay/calibrate/measured"
)

// with returns a copy of m with changed settings of its server.
func (m *Measured) with(change func(*measured.Settings)) *Measured {
	other := *m
	other.Settings.Notes = slices.Clone(m.Settings.Notes)
	change(&other.Settings)
	return &other
}

// withBlocks returns a copy of m with this number of KV blocks.
func (m *Measured) withBlocks(blocks int) *Measured {
	return m.with(func(s *measured.Settings) { s.Blocks = blocks })
}

// findBlocks returns the number of KV blocks. If this number is only estimated, findBlocks returns the number that
// gives the best fit to the run. The candidates are first 4 % apart around the estimate, then 1 %.
func findBlocks(ctx context.Context, m *Measured, o Options) (int, error) {
	if !m.Settings.Estimated {
		return m.Settings.Blocks, nil
	}
	best, least := m.Settings.Blocks, math.Inf(1)
	for _, step := range []float64{0.04, 0.01} {
		var tried []*Measured
		for k := -3; k <= 3; k++ {
			tried = append(tried, m.withBlocks(int(math.Round(float64(best)*(1+step*float64(k))))))
		}
		losses, err := quickLosses(ctx, o, scanRuns, tried...)
		if err != nil {
			return 0, err
		}
		for k, loss := range losses {
			if loss < least {
				best, least = tried[k].Settings.Blocks, loss
			}
		}
	}
	m.Settings.AddNote("num_gpu_blocks is not told: %d, with which the run can be fitted best", best)
	return best, nil
}

// decideOpen decides the open settings. An alternative replaces the chosen value if its fit is clearly better.
func decideOpen(ctx context.Context, m *Measured, o Options) (*Measured, error) {
	for _, open := range m.Settings.Open {
		other, choice := m.with(open.Other), open.Chosen
		losses, err := quickLosses(ctx, o, choiceRuns, m, other)
		if err != nil {
			return nil, err
		}
		if losses[1] < (1-clearly)*losses[0] {
			m, choice = other, open.Instead
		}
		m = m.with(func(s *measured.Settings) { s.AddNote("%s: %s", open.What, choice) })
	}
	return m, nil
}

// clearly is the share by which an alternative setting must reduce the loss.
const clearly = 0.2

// scanRuns and choiceRuns are the numbers of simulations per candidate: for a number of blocks, and for an open
// setting. choiceRuns may be small because only a clearly better alternative counts.
const (
	scanRuns   = 40
	choiceRuns = 20
)

// quickLosses returns the losses of short fits to runs. Each fit takes this number of simulations. A loss is +Inf if
// a request does not fit into the server.
func quickLosses(ctx context.Context, o Options, simulations int, runs ...*Measured) ([]float64, error) {
	losses := make([]float64, len(runs))
	var g errgroup.Group
	for i, m := range runs {
		g.Go(func() (err error) {
			losses[i], err = quickLoss(ctx, m, o, simulations)
			if errors.As(err, new(*measured.NotModelledError)) {
				losses[i], err = math.Inf(1), nil
			}
			return err
		})
	}
	return losses, g.Wait()
}

// quickLoss returns the loss of a fit to all requests with this number of simulations.
func quickLoss(ctx context.Context, m *Measured, o Options, simulations int) (float64, error) {
	sim, err := newSimulation(m, o.Prompts, o.Reference)
	if err != nil {
		return 0, err
	}
	all, _ := splitParts(m, 0)
	s := newSearch(ctx, []*Simulation{sim}, []*target{newTarget(m, all[0].withoutWarmUp(m))})
	shapes := s.plainForms()
	s.form = shapes[len(shapes)-1]
	return s.descendSimplex(s.scaleStart(), wideEdge, simulations).loss, s.err
}
