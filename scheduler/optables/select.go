package optables

// Curve identifies a curve of the tables by the operator and the columns of its key.
type Curve struct {
	Table  string   // for example gemm
	Texts  []string // for example bfloat16
	Values []int    // for example the outputs and inputs of a matrix
}

// Select returns the tables with only the curves for which keep returns true.
func (t *Tables) Select(keep func(Curve) bool) *Tables {
	some := &Tables{header: t.header, latency: t.latency, donor: t.donor}
	for place := range t.tables {
		from, to := t.table(place), &table{}
		some.tables[place] = to
		to.form, to.words, to.axes, to.start = from.form, from.words, from.axes, []int32{0}
		for i := range from.keys {
			c := Curve{Table: from.form.name}
			for column := range from.form.columns {
				if v := from.keys[i][column]; column < from.form.texts {
					c.Texts = append(c.Texts, from.words[v])
				} else {
					c.Values = append(c.Values, int(v))
				}
			}
			if !keep(c) {
				continue
			}
			to.keys, to.shape = append(to.keys, from.keys[i]), append(to.shape, from.shape[i])
			to.codes = append(to.codes, from.codes[from.start[i]:from.start[i+1]]...)
			to.start = append(to.start, int32(len(to.codes)))
		}
		to.trim()
		to.note()
	}
	return some
}

// trim drops the words and axes that no curve uses.
func (t *table) trim() {
	words, axes := make([]int32, len(t.words)), make([]int32, len(t.axes)) // new indices, from 1
	var keptWords []string
	for i, w := range t.words {
		for k := range t.keys {
			for c := range t.form.texts {
				if t.keys[k][c] == int32(i) {
					words[i] = int32(len(keptWords)) + 1
				}
			}
		}
		if words[i] > 0 {
			keptWords = append(keptWords, w)
		}
	}
	var keptAxes [][]int32
	for k := range t.keys {
		for c := range t.form.texts {
			t.keys[k][c] = words[t.keys[k][c]] - 1
		}
		at := &axes[t.shape[k]]
		if *at == 0 {
			keptAxes = append(keptAxes, t.axes[t.shape[k]])
			*at = int32(len(keptAxes))
		}
		t.shape[k] = *at - 1
	}
	t.words, t.axes = keptWords, keptAxes
}
