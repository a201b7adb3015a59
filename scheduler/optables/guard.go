package optables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
)

// faulty is the minimum ratio of an invalid latency to its limit, or of the limit to the latency, for which a row is
// listed as a fault. Smaller differences are noise: they are corrected and counted, but not listed.
const faulty = 1.05

// worse is the minimum ratio of a latency to another engine's latency for which a row is listed as a fault.
const worse = 1.25

// change replaces an invalid latency of a row, and records it.
func (d *draft) change(place int, r *row, reason string, ms float64) {
	d.report.Changed.add(reason, 1)
	if r.ms > ms*faulty || ms > r.ms*faulty {
		d.list(place, r, reason, ms)
	}
	r.ms = ms
}

// list adds a row to the faults.
func (d *draft) list(place int, r *row, reason string, ms float64) {
	d.report.Faults = append(d.report.Faults, Fault{d.files[r.file], d.describe(place, r), reason, r.ms, ms})
}

// describe returns the shape of a row, in the order of the key.
func (d *draft) describe(place int, r *row) string {
	form := listForms()[place]
	var parts []string
	for c := range form.columns {
		if c < form.texts {
			parts = append(parts, d.words[r.key[c]])
		} else {
			parts = append(parts, fmt.Sprint(r.key[c]))
		}
	}
	return form.name + " " + strings.Join(parts, " ") + ", " + form.axis + " " + fmt.Sprint(r.axis)
}

// merge keeps the least latency of each shape, because the engines call the same kernels, and some measurements are
// bad. In tables with the engine as first key, rows of different engines are not merged.
func (d *draft) merge() {
	for place, all := range d.tables {
		stable.Sort(all, func(a, b row) int { return cmp.Or(compareRows(a, b), cmp.Compare(a.ms, b.ms)) })
		kept := all[:0]
		for i := range all {
			r := &all[i]
			if len(kept) == 0 || !sameRow(kept[len(kept)-1], *r) {
				kept = append(kept, *r)
				continue
			}
			best := &kept[len(kept)-1]
			d.report.Dropped.add("slower than another engine's", 1)
			if r.ms > best.ms*worse {
				d.list(place, r, "slower than another engine's", 0)
			}
		}
		d.tables[place] = kept
	}
}

// batchOf returns the key column with the batch of a table, or -1 if the batch is the axis. ok is false if the table
// has no batch.
func batchOf(place int) (column int, ok bool) {
	switch place {
	case gemmTable, contextTable, latentContextTable, moduleContextTable, productTable, expertsTable, sparseContextTable, sparsePastTable, linearTable:
		return -1, true
	case generationTable, latentGenerationTable, moduleGenerationTable, sparseGenerationTable:
		return listForms()[place].columns - 1, true
	}
	return 0, false
}

// guardBatch lowers the latencies of rows that are slower than the same shape with a larger batch.
func (d *draft) guardBatch(place int) {
	column, ok := batchOf(place)
	if !ok {
		return
	}
	all, reason := d.tables[place], "slower than a larger batch"
	if place == sparsePastTable {
		reason = "slower than a longer past"
	}
	order := make([]int32, len(all)) // row indices, grouped by shape, with ascending batch
	for i := range order {
		order[i] = int32(i)
	}
	shape := func(r *row) (key, int32) {
		k, rest := r.key, r.axis
		if column < 0 {
			return k, 0
		}
		k[column] = 0
		return k, rest
	}
	if column >= 0 {
		slices.SortFunc(order, func(i, j int32) int {
			a, x := shape(&all[i])
			b, y := shape(&all[j])
			return cmp.Or(slices.Compare(a[:], b[:]), cmp.Compare(x, y), cmp.Compare(all[i].key[column], all[j].key[column]))
		})
	}
	for i := len(order) - 2; i >= 0; i-- {
		r, next := &all[order[i]], &all[order[i+1]]
		a, x := shape(r)
		b, y := shape(next)
		if a == b && x == y && r.ms > next.ms {
			d.change(place, r, reason, next.ms)
		}
	}
}

// guardGeneration lowers the latencies of rows that are slower than on an older GPU. Collectives depend on the links
// between GPUs, and are not compared.
func (d *draft) guardGeneration(place int, older *Tables) {
	if place == allReduceTable || place == collectiveTable || older.donor != nil {
		return
	}
	t := older.table(place)
	words := make([]int32, len(d.words)) // indices of words in the older tables
	for i, w := range d.words {
		words[i] = -1
		if at, ok := t.word(w); ok {
			words[i] = at
		}
	}
	last, at := key{-1}, -1
	for i := range d.tables[place] {
		r := &d.tables[place][i]
		if r.key != last {
			last, at = r.key, t.same(r.key, words)
		}
		if at < 0 {
			continue
		}
		c := older.curve(t, at)
		if j, ok := slices.BinarySearch(c.axis, r.axis); ok && r.ms > c.ms(j)*(1+older.header.Step) {
			d.change(place, r, "slower than "+older.Name(), c.ms(j))
		}
	}
}

// same returns the curve with key k, after words maps the indices of its texts. same returns -1 if there is no such
// row.
func (t *table) same(k key, words []int32) int {
	for c := range t.form.texts {
		if k[c] = words[k[c]]; k[c] < 0 {
			return -1
		}
	}
	if span := t.prefix(&k, t.form.columns); span[1] > span[0] {
		return span[0]
	}
	return -1
}
