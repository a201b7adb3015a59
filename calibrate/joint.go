package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/replay-llm/replay/calibrate/measured"
)

// training holds the fitted and the held-out requests of each run.
type training struct {
	name     string
	on, held []part // by run; a part is empty if the training does not use the run
	// paces has the speed of each run's server relative to the other servers. The value 0 means equally fast, and nil
	// means that all are equally fast.
	paces []float64
}

// listTrainings returns the fit to all requests of all runs, then the fits that leave out a part of each run. With
// several runs, listTrainings also returns fits that leave out one whole run each.
func listTrainings(runs []*Measured, holdout float64) ([]training, error) {
	var all []training
	for i, m := range runs {
		fitted, held := splitParts(m, holdout)
		for k := range fitted {
			if k > 0 && min(len(fitted[k].chosen), len(held[k].chosen)) < measured.Fewest/2 {
				return nil, fmt.Errorf("holdout is %v of %d requests, must be at least %d on both sides", holdout, len(m.Requests)-m.Lead, measured.Fewest/2)
			}
			if i == 0 {
				all = append(all, training{name: fitted[k].name})
			}
			all[k].on, all[k].held = append(all[k].on, fitted[k]), append(all[k].held, held[k])
		}
	}
	if len(runs) < 2 {
		return all, nil
	}
	for i := range all {
		all[i].name = cmp.Or(strings.TrimPrefix(all[i].name, "all"), "all runs")
	}
	whole := all[0]
	for i := range runs {
		t := training{name: "all but " + runs[i].Name, on: slices.Clone(whole.on), held: make([]part, len(runs))}
		t.held[i], t.on[i] = t.on[i], part{}
		all = append(all, t)
	}
	return all, nil
}

// checkAlike returns an error if the runs do not have the same kind of server.
func checkAlike(runs []*Measured) error {
	first := &runs[0].Settings
	for _, m := range runs[1:] {
		s := &m.Settings
		for _, f := range []struct {
			name       string
			one, other any
		}{
			{"model", path.Base(first.Model), path.Base(s.Model)}, {"device_name", first.GPU, s.GPU}, {"vllm_version", first.Version, s.Version},
			{"tensor_parallel_size", first.TensorParallel, s.TensorParallel}, {"engine", first.Kind, s.Kind}, {"scheduler_profile", first.Rules, s.Rules},
		} {
			if f.one != f.other {
				return fmt.Errorf("%s of %s is %v and of %s %v, must be runs of servers that are alike", f.name, runs[0].Name, f.one, m.Name, f.other)
			}
		}
		if runs[0].Client != m.Client {
			return fmt.Errorf("%s and %s: the times of one are a client's and of the other the server's own, must be the same of both", runs[0].Name, m.Name)
		}
	}
	return nil
}

// addNotes adds the name of run i, and its assumptions that no earlier run has.
func (r *Result) addNotes(runs []*Measured, i int) {
	if i > 0 {
		r.Run += ", "
	}
	r.Run += runs[i].Name
	r.addNotesOf(runs[i])
}

// addNotesOf adds the assumptions of a run.
func (r *Result) addNotesOf(m *Measured) {
	for _, n := range m.Settings.Notes {
		if !slices.Contains(r.Notes, n) {
			r.Notes = append(r.Notes, n)
		}
	}
}

// fitAll fits to each training. The fits are independent of each other and run concurrently.
func fitAll(ctx context.Context, sims []*Simulation, runs []*Measured, all []training, endStep func()) ([]fitted, error) {
	fits := make([]fitted, len(all))
	var g errgroup.Group
	for i := range all {
		g.Go(func() (err error) {
			fits[i], err = fitTraining(ctx, sims, runs, &all[i])
			endStep()
			return err
		})
	}
	return fits, g.Wait()
}

// targetsOf returns the targets of the runs with chosen requests, and the simulations of these runs.
func targetsOf(sims []*Simulation, runs []*Measured, on []part) (seen []*Simulation, targets []*target) {
	for i, p := range on {
		if len(p.chosen) > 0 {
			seen = append(seen, sims[i])
			targets = append(targets, newTarget(runs[i], runs[i].withoutHeld(p.withoutWarmUp(runs[i]))))
		}
	}
	return seen, targets
}

// addChecks compares a fit with the fitted and with the held-out requests. If the fit to all requests omits a slowdown,
// the requests outside this slowdown are also compared separately.
func (r *Result) addChecks(sims []*Simulation, runs []*Measured, f *fitted, t, all *training) error {
	sims = t.atPaces(sims)
	for i, m := range runs {
		out := Outcome{Way: f.way}
		if err := sims[i].Run(&f.parameters, &out, nil); err != nil {
			return err
		}
		add := func(judged part, heldOut bool) {
			judged = judged.judgedIn(m)
			name := judged.name
			if len(runs) > 1 {
				name = t.nameSlow(m.Name+", "+name, i, all)
			}
			c := Check{Fitted: t.name, Judged: name, HeldOut: heldOut, Form: f.form.Name, Known: t.knownOf(i, all), run: i}
			left := &all.on[i].left
			rest := left.exclude(m, judged.chosen)
			if len(judged.chosen) > 0 {
				whole := c
				if len(rest) < len(judged.chosen) && whole.Known == "" {
					whole.Known = "its server was disturbed for a time"
				}
				whole.chosen, whole.Errors = judged.deciding(judged.chosen), judgeOutcome(m, judged.chosen, &out)
				r.Checks = append(r.Checks, whole)
			}
			if len(rest) > 0 && len(rest) < len(judged.chosen) {
				c.Judged, c.chosen, c.Errors = name+" but "+left.String(), judged.deciding(rest), judgeOutcome(m, rest, &out)
				r.Checks = append(r.Checks, c)
			}
		}
		add(t.on[i], false)
		add(t.held[i], true)
		if slices.ContainsFunc(t.held, func(p part) bool { return len(p.chosen) > 0 }) {
			continue
		}
		r.Preemptions += out.Preemptions
		s := splitBySaturation(m, &out)
		add(part{name: s.nameOf("all, at once"), chosen: s.quick, share: true}, false)
		add(part{name: s.nameOf("all, queued"), chosen: s.slow, share: true}, false)
	}
	return nil
}

// ReadAll reads several runs of one server in the same way as readKnown. Settings that a run lacks come from the
// first run with settings.
func ReadAll(dirs []string, blocks int, known map[string]any) ([]*Measured, error) {
	dirs = measured.ListRuns(dirs)
	all := make([]*Measured, len(dirs))
	filled := maps.Clone(known)
	if filled == nil {
		filled = map[string]any{}
	}
	for _, dir := range dirs {
		s, err := measured.ReadServer(dir)
		if err == nil && (s.MaxSeqs > 0 || !s.IsVLLM()) {
			for key, value := range s.ForSimilar() {
				if _, ok := filled[key]; !ok {
					filled[key] = value
				}
			}
			break
		}
	}
	for i, dir := range dirs {
		var err error
		if all[i], err = readKnown(dir, blocks, filled); err != nil {
			return nil, err
		}
	}
	return all, nil
}
