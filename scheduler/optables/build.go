package optables

import (
	"slices"

	"github.com/replay-llm/replay/internal/stable"
)

// build converts the rows to tables with latencies rounded to steps.
func (d *draft) build(step float64) (*Tables, error) {
	t := &Tables{header: header{Name: d.system.gpu, Sheet: d.sheet, Releases: d.report.Releases, Step: step}}
	forms, highest := listForms(), uint16(0)
	for place, all := range d.tables {
		form := forms[place]
		table := &table{form: &form}
		t.tables[place] = table
		d.sortWords(table, all)
		table.start = []int32{0}
		known := map[string]int32{} // indices of axes by the bytes of an axis
		for from := 0; from < len(all); {
			to := from + 1
			for to < len(all) && all[to].key == all[from].key {
				to++
			}
			table.addCurve(all[from:to], known)
			for _, r := range all[from:to] {
				c, err := codeOf(r.ms, step)
				if err != nil {
					return nil, err
				}
				table.codes = append(table.codes, c)
				highest = max(highest, c)
			}
			table.start = append(table.start, int32(len(table.codes)))
			from = to
		}
		table.note()
		d.report.Kept += len(all)
	}
	t.header.Highest = highest
	t.latency = listPowers(step, int(highest)+1)
	return t, nil
}

// sortWords sorts the words of a table, and its rows by the new indices of words.
func (d *draft) sortWords(t *table, all []row) {
	used := make([]bool, len(d.words))
	for i := range all {
		for c := range t.form.texts {
			used[all[i].key[c]] = true
		}
	}
	for i, w := range d.words {
		if used[i] {
			t.words = append(t.words, w)
		}
	}
	slices.Sort(t.words)
	for i := range all {
		for c := range t.form.texts {
			all[i].key[c], _ = t.word(d.words[all[i].key[c]])
		}
	}
	stable.Sort(all, compareRows)
}

// addCurve adds a curve for rows with the same key.
func (t *table) addCurve(rows []row, known map[string]int32) {
	var name []byte
	axis := make([]int32, len(rows))
	for i := range rows {
		x := rows[i].axis
		axis[i] = x
		name = append(name, byte(x), byte(x>>8), byte(x>>16), byte(x>>24))
	}
	place, ok := known[string(name)]
	if !ok {
		place = int32(len(t.axes))
		known[string(name)] = place
		t.axes = append(t.axes, axis)
	}
	t.keys, t.shape = append(t.keys, rows[0].key), append(t.shape, place)
}

// note computes the logarithms that distances are computed from.
func (t *table) note() {
	t.logs = make([][]float64, len(t.axes))
	for i, axis := range t.axes {
		for _, x := range axis {
			t.logs[i] = append(t.logs[i], binaryLog(float64(max(x, 1))))
		}
	}
	for l := range t.column {
		t.column[l] = make([]float64, len(t.keys))
		column := t.form.columns - 2 + l
		for i := range t.keys {
			t.column[l][i] = binaryLog(float64(max(t.keys[i][column], 1)))
		}
	}
}
