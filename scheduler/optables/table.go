package optables

import (
	"slices"
	"sync"
)

// maxColumns is the maximum number of key columns of a table.
const maxColumns = 9

// key is the shape of a curve: a value for each key column of its table, followed by zeros.
type key [maxColumns]int32

// table is the measurements of one operator: curves over an axis, sorted by their keys. Text columns of keys are
// indices in words.
type table struct {
	form   *form
	text   *numbers     // text in the file; parsed at the first use of the table
	once   sync.Once    // parses text
	failed bool         // text is not a valid table
	words  []string     // strings of all text columns, sorted
	keys   []key        // key of each curve, ascending
	shape  []int32      // index in axes of each curve
	start  []int32      // index of the first code of each curve; one more at the end
	axes   [][]int32    // ascending values of the axis
	logs   [][]float64  // binary logarithms of axes
	codes  []uint16     // latencies, as indices in Tables.latency
	column [2][]float64 // binary logarithms of the last two key columns of each curve
}

// form describes the columns of the tables of one operator.
type form struct {
	name    string
	texts   int // number of text columns in the key, before the numeric columns
	columns int // number of key columns
	axis    string
	root    bool // along the last key column, the square root of the latency is interpolated linearly
}

// Indices of the tables in Tables.
const (
	gemmTable = iota
	contextTable
	generationTable
	latentContextTable
	latentGenerationTable
	moduleContextTable
	moduleGenerationTable
	productTable
	expertsTable
	allReduceTable
	collectiveTable
	sparseContextTable
	sparsePastTable
	sparseGenerationTable
	linearTable
	tableCount
)

// listForms returns the forms of the tables by their indices.
func listForms() [tableCount]form {
	return [tableCount]form{
		{name: "gemm", texts: 1, columns: 3, axis: "m"},                               // dtype; n, k
		{name: "context_attention", texts: 1, columns: 6, axis: "batch", root: true},  // kv; head size, kv heads (0: as many), window, heads, s
		{name: "generation_attention", texts: 1, columns: 6, axis: "s"},               // kv; head size, kv heads, window, heads, batch
		{name: "context_mla", texts: 2, columns: 4, axis: "batch", root: true},        // type, kv; heads, s
		{name: "generation_mla", texts: 2, columns: 4, axis: "s"},                     // type, kv; heads, batch
		{name: "mla_context_module", texts: 3, columns: 5, axis: "batch", root: true}, // type, kv, gemm; heads, s
		{name: "mla_generation_module", texts: 3, columns: 5, axis: "s"},              // type, kv, gemm; heads, batch
		{name: "mla_bmm", texts: 2, columns: 3, axis: "tokens"},                       // op, dtype; heads
		{name: "moe", texts: 3, columns: 9, axis: "tokens"},                           // engine, type, distribution; hidden, inter, topk, experts, tp, ep
		{name: "custom_allreduce", texts: 1, columns: 2, axis: "elements"},            // engine; gpus
		{name: "nccl", texts: 1, columns: 2, axis: "elements"},                        // op; gpus
		{name: "dsa_context_module", texts: 3, columns: 5, axis: "batch"},             // architecture, kv, gemm; heads, s
		{name: "dsa_context_module_past", texts: 3, columns: 5, axis: "length"},       // architecture, kv, gemm; heads, new tokens
		{name: "dsa_generation_module", texts: 3, columns: 5, axis: "s"},              // architecture, kv, gemm; heads, batch
		{name: "linear_attention", texts: 2, columns: 5, axis: "batch"},               // kind, step; key heads, value heads, s
	}
}

// table returns the table with the given index, and parses it at its first use.
func (t *Tables) table(place int) *table {
	at := t.tables[place]
	at.once.Do(at.read)
	return at
}

// read parses the text of the table.
func (t *table) read() {
	if t.text == nil {
		return
	}
	r := &reader{numbers: *t.text}
	r.table(t)
	t.text = nil
	if r.failed || len(r.low)+len(r.high) > 0 {
		t.failed, t.words, t.keys, t.shape, t.start, t.axes, t.codes = true, nil, nil, nil, nil, nil, nil
	}
}

// word returns the index of a text; ok is false if no curve has it.
func (t *table) word(text string) (int32, bool) {
	i, ok := slices.BinarySearch(t.words, text)
	return int32(i), ok
}

// find returns the curves of a span that have the given value in a column. All columns before it must be equal in the
// span.
func (t *table) find(span [2]int, column int, value int32) [2]int {
	lo, hi := t.lower(span, column, value), span[1]
	if value < 1<<31-1 {
		hi = t.lower([2]int{lo, hi}, column, value+1)
	}
	return [2]int{lo, hi}
}

// lower returns the first curve of a span with a value in a column of at least value.
func (t *table) lower(span [2]int, column int, value int32) int {
	lo, hi := span[0], span[1]
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if t.keys[mid][column] < value {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// prefix returns the curves that have the first columns of k.
func (t *table) prefix(k *key, columns int) [2]int {
	span := [2]int{0, len(t.keys)}
	for c := range columns {
		span = t.find(span, c, k[c])
	}
	return span
}

// axis returns the axis of a curve.
func (t *table) axis(curve int) []int32 { return t.axes[t.shape[curve]] }

// curve is a curve with the latencies of its codes.
type curve struct {
	axis    []int32
	codes   []uint16
	latency []float64
}

// curve returns a curve.
func (t *Tables) curve(at *table, i int) curve {
	return curve{at.axis(i), at.codes[at.start[i]:at.start[i+1]], t.latency}
}

func (c *curve) ms(i int) float64 { return c.latency[c.codes[i]] }

// covers reports whether x is within the axis of the curve.
func (c *curve) covers(x int) bool {
	return len(c.axis) > 0 && x >= int(c.axis[0]) && x <= int(c.axis[len(c.axis)-1])
}

// at returns the latency at x within the axis, interpolated linearly between points.
func (c *curve) at(x int) float64 {
	i := lowerBound(c.axis, x)
	if int(c.axis[i]) == x {
		return c.ms(i)
	}
	x0, x1 := float64(c.axis[i-1]), float64(c.axis[i])
	return blendLinear(c.ms(i-1), c.ms(i), (float64(x)-x0)/(x1-x0))
}

// lowerBound returns the first index of an ascending list with a value of at least x.
func lowerBound(axis []int32, x int) int {
	lo, hi := 0, len(axis)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if int(axis[mid]) < x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// blendLinear interpolates linearly from a to b, with the same bits on every processor.
func blendLinear(a, b, share float64) float64 { return a + float64((b-a)*share) }
