package sweeps

import (
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/engines"
)

// listAssumptions returns what the results of cells rest on: a text for each key that all
// cells have alike, and one with its cells for each that differs.
func listAssumptions(cells []plan.Cell) []engines.Assumption {
	var keys []string
	texts, with := map[string][]string{}, map[string][][]string{} // by key; the cells of each text
	told := 0
	for i := range cells {
		all := assumptionsOf(&cells[i])
		if len(all) > 0 {
			told++
		}
		for _, a := range all {
			if texts[a.Key] == nil {
				keys = append(keys, a.Key)
			}
			k := slices.Index(texts[a.Key], a.Text)
			if k < 0 {
				k = len(texts[a.Key])
				texts[a.Key], with[a.Key] = append(texts[a.Key], a.Text), append(with[a.Key], nil)
			}
			with[a.Key][k] = append(with[a.Key][k], strconv.Itoa(cells[i].Index))
		}
	}
	var all []engines.Assumption
	for _, key := range keys {
		for k, text := range texts[key] {
			if len(with[key][k]) < told {
				text = "cell " + strings.Join(with[key][k], ", ") + ": " + text
			}
			all = append(all, engines.Assumption{Key: key, Text: text})
		}
	}
	return all
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
