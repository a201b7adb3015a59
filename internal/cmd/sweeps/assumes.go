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

// cellNotes are the texts about a cell that depend on its settings only.
type cellNotes struct {
	index    int
	warnings []string
	assumed  []engines.Assumption // none if the cell repeats the reference's results
}

// readNotes returns the notes of cells, on all cores. A cell that cannot run has none.
func readNotes(reader *options.CellReader, cells []plan.Cell) []cellNotes {
	all := make([]cellNotes, len(cells))
	_ = plan.Each(context.Background(), len(cells), runtime.NumCPU(), func(_ context.Context, i int) error {
		all[i].index = cells[i].Index
		o, file, mode, err := reader.OptionsOf(cells[i].Settings)
		if err != nil {
			return nil
		}
		spec, err := o.Spec(file, mode)
		if err != nil {
			return nil
		}
		all[i].warnings = append(spec.Warnings(), o.Config.Overruled...)
		if !spec.Compat {
			all[i].assumed = spec.Assumptions()
		}
		return nil
	})
	return all
}

// mergeAssumptions returns the assumptions of all cells, each with its cells.
func mergeAssumptions(notes []cellNotes) []engines.Assumption {
	var replays []runs.Assumed
	for i := range notes {
		if n := &notes[i]; len(n.assumed) > 0 {
			replays = append(replays, runs.Assumed{Name: strconv.Itoa(n.index), All: n.assumed})
		}
	}
	return runs.MergeAssumptions("cell ", replays)
}
