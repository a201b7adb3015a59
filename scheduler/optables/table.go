package optables

import (
	"slices"
	"sync"
)

// maxColumns is the number of key columns of the widest table.
const maxColumns = 9

// key is the shape of a curve: a value for each key column of its table, zeros behind them.
type key [maxColumns]int32

// table is the measurements of one operator: curves over an axis, ordered by their keys. A column of texts holds places
// in words.
type table struct {
	form   *form
	text   *numbers     // of the file; they are read when the table is first asked for
	once   sync.Once    // has read text
	failed bool         // text is not that of a table
	words  []string     // of all text columns, ordered
	keys   []key        // by curve, ascending
	shape  []int32      // by curve: its place in axes
	start  []int32      // by curve: its first code; one more at the end
	axes   [][]int32    // ascending values of the axis
	logs   [][]float64  // their logarithms
	codes  []uint16     // latencies, as places in Tables.latency
	column [2][]float64 // by curve: logarithms of the last two key columns
}

// form is the common form of the tables of one operator.
type form struct {
	name    string
	texts   int // key columns that are texts, before the numeric ones
	columns int // key columns
	axis    string
	root    bool // grids are linear in the square root of the latency along the last column
}

// Places of the tables in Tables.
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

// listForms returns the tables by their places.
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

// table returns a table by its place.
func (t *Tables) table(place int) *table {
	at := t.tables[place]
	at.once.Do(at.read)
	return at
}

// read reads the text of the table.
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

// word returns the place of a text; false if no curve has it.
func (t *table) word(text string) (int32, bool) {
	i, ok := slices.BinarySearch(t.words, text)
	return int32(i), ok
}

// find returns the curves from lo to hi that have a value in a column. All columns before it are the same among them.
func (t *table) find(span [2]int, column int, value int32) [2]int {
	lo, hi := t.lower(span, column, value), span[1]
	if value < 1<<31-1 {
		hi = t.lower([2]int{lo, hi}, column, value+1)
	}
	return [2]int{lo, hi}
}

// lower returns the first curve of a span that has at least a value in a column.
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

// prefix returns the curves with the first columns of k.
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

// covers reports whether a value of the axis lies between the ends of the curve.
func (c *curve) covers(x int) bool {
	return len(c.axis) > 0 && x >= int(c.axis[0]) && x <= int(c.axis[len(c.axis)-1])
}

// at returns the latency at a value between the ends of the curve: linear between points.
func (c *curve) at(x int) float64 {
	i := lowerBound(c.axis, x)
	if int(c.axis[i]) == x {
		return c.ms(i)
	}
	x0, x1 := float64(c.axis[i-1]), float64(c.axis[i])
	return blendLinear(c.ms(i-1), c.ms(i), (float64(x)-x0)/(x1-x0))
}

// lowerBound returns the first place of an ascending list with a value of at least x.
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

// blendLinear returns what lies at a share of the way from a to b, to the same bit on every processor.
func blendLinear(a, b, share float64) float64 { return a + float64((b-a)*share) }
