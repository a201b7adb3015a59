package plans

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/sweeps"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/plan"
)

// planJournal stores the measures of points, so that an interrupted or a larger plan reuses them. A nil journal
// stores nothing.
type planJournal struct {
	file  *plan.Journal
	tasks []plan.Task // by variant: all that a measure depends on but the point
}

func newPlanJournal(f *planFlags, choices []chosen, seed uint64) (*planJournal, error) {
	j := &planJournal{}
	program, err := sweeps.ProgramVersion()
	if err != nil {
		return nil, err
	}
	digests := sweeps.NewDigests()
	for _, c := range choices {
		if c.variant.Refused != nil {
			j.tasks = append(j.tasks, plan.Task{})
			continue
		}
		settings, err := options.ExpandDeployment(c.settings)
		if err != nil {
			return nil, err
		}
		cell := plan.Cell{Settings: append([]plan.Setting{
			{Name: "plan-slo", Value: f.slo.String()}, {Name: "plan-slo-attainment", Value: fmt.Sprint(f.attainment)},
			{Name: "plan-seed", Value: strconv.FormatUint(seed, 10)}, {Name: "plan-resamples", Value: strconv.Itoa(f.resamples)},
			{Name: "plan-model-error", Value: f.modelErrorOf(&c.spec).key()},
		}, settings...)}
		if f.growth != 1 {
			cell.Settings = append(cell.Settings, plan.Setting{Name: "plan-growth", Value: fmt.Sprint(f.growth)})
		}
		if s := f.survive.text; s != "" {
			cell.Settings = append(cell.Settings, plan.Setting{Name: "plan-survive", Value: s + f.describeSurvival()})
		}
		task, err := plan.NewTask(&cell, program, digests.Of)
		if err != nil {
			return nil, err
		}
		j.tasks = append(j.tasks, task)
	}
	if j.file, err = plan.OpenJournal(f.journal); err != nil {
		return nil, fmt.Errorf("--journal: %w", err)
	}
	return j, nil
}

// pointKey returns a key of a point, from all inputs that its measure depends on.
func (j *planJournal) pointKey(p plan.Point) string {
	task := j.tasks[p.Variant]
	point := fmt.Sprintf("%v load %s sample %d", p.Shape, strconv.FormatFloat(p.Load, 'g', -1, 64), p.Sample)
	if p.Part > 0 {
		point += fmt.Sprintf(" part %d", p.Part)
	}
	task.Settings = append(task.Settings[:len(task.Settings):len(task.Settings)], plan.Setting{Name: "plan-point", Value: point})
	return task.Key()
}

func (j *planJournal) findMeasure(p plan.Point) (m plan.Measure, ok bool) {
	if j == nil {
		return m, false
	}
	text, ok := j.file.Report(j.pointKey(p))
	return m, ok && json.Unmarshal(text, &m) == nil
}

func (j *planJournal) addMeasure(p plan.Point, m *plan.Measure) error {
	if j == nil {
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return j.file.Add(&plan.Outcome{Key: j.pointKey(p), Report: text})
}
