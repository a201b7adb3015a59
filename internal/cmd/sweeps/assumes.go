package sweeps

import (
	"context"
	"runtime"
	"strconv"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/engines"
)

// listAssumptions returns the merged assumptions of all cells.
func listAssumptions(cells []plan.Cell) []engines.Assumption {
	var replays []runs.Assumed
	found, reader := make([][]engines.Assumption, len(cells)), options.NewCellReader()
	eachCell(cells, func(i int) { found[i] = assumptionsOf(reader, &cells[i]) })
	for i := range cells {
		if len(found[i]) > 0 {
			replays = append(replays, runs.Assumed{Name: strconv.Itoa(cells[i].Index), All: found[i]})
		}
	}
	return runs.MergeAssumptions("cell ", replays)
}

// eachCell calls do for each cell in parallel.
func eachCell(cells []plan.Cell, do func(i int)) {
	_ = plan.Each(context.Background(), len(cells), runtime.NumCPU(), func(_ context.Context, i int) error { do(i); return nil })
}

// assumptionsOf returns the assumptions of a cell. It returns nil for a cell that cannot run or that repeats the
// results of the reference.
func assumptionsOf(reader *options.CellReader, cell *plan.Cell) []engines.Assumption {
	o, file, mode, err := reader.OptionsOf(cell.Settings)
	if err != nil {
		return nil
	}
	spec, err := o.Spec(file, mode)
	if err != nil || spec.Compat {
		return nil
	}
	return spec.Assumptions()
}
