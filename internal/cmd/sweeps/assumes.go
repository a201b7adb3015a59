package sweeps

import (
	"strconv"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/engines"
)

// listAssumptions returns what the results of cells rest on.
func listAssumptions(cells []plan.Cell) []engines.Assumption {
	var replays []runs.Assumed
	for i := range cells {
		if all := assumptionsOf(&cells[i]); len(all) > 0 {
			replays = append(replays, runs.Assumed{Name: strconv.Itoa(cells[i].Index), All: all})
		}
	}
	return runs.MergeAssumptions("cell ", replays)
}

// assumptionsOf returns what the result of a cell rests on; nothing of a cell that cannot
// run or repeats the reference's results.
func assumptionsOf(cell *plan.Cell) []engines.Assumption {
	o, file, mode, err := options.OptionsOf(cell.Settings)
	if err != nil {
		return nil
	}
	spec, err := o.Spec(file, mode)
	if err != nil || spec.Compat {
		return nil
	}
	return spec.Assumptions()
}
