package optables

import "strings"

// Linear describes attention that has a state for each sequence instead of keys and values: a gated delta rule after
// a convolution. Heads are counted on one GPU.
type Linear struct {
	Kind                 string // gdn or kda
	KeyHeads, ValueHeads int
}

// LinearStep is a kernel of linear attention.
type LinearStep uint8

const (
	Convolve LinearStep = iota // the convolution of prompts
	Scan                       // the rule over prompts
	Shift                      // the convolution for one token of each request
	Recur                      // the rule for one token of each request
)

// String returns the name of the kernel in the tables.
func (s LinearStep) String() string {
	return [...]string{"convolution of prompts", "scan", "convolution", "recurrence"}[s]
}

// linearStepOf returns the name of a LinearStep for a kernel of the wheel.
func linearStepOf(kernel, phase string) string {
	first := Scan
	if strings.HasPrefix(kernel, "causal_conv1d") {
		first = Convolve
	}
	if phase == "generation" {
		first += Shift
	}
	return first.String()
}

// linearSize is the measured head size.
const linearSize = 128

// Linear returns the time of a kernel for a batch with the given number of tokens per request. The time does not
// depend on earlier tokens, because the state has a constant size.
func (t *Tables) Linear(x Linear, step LinearStep, batch, tokens int) Time {
	table := t.table(linearTable)
	m := measured{own: x.workload(step), grid: grid{Tables: t, table: table}}
	kind, known := table.word(x.Kind)
	name, ok := table.word(step.String())
	if !known || !ok {
		return m.at(point{0, tokens, batch})
	}
	all := table.prefix(&key{kind, name}, 2)
	least := -1.0
	for from := all[0]; from < all[1]; {
		k := &table.keys[from]
		span := table.prefix(k, 4)
		y := Linear{x.Kind, int(k[2]), int(k[3])}
		if d := 2*sizesApart(x.ValueHeads, y.ValueHeads) + sizesApart(x.KeyHeads, y.KeyHeads); least < 0 || d < least {
			least, m.grid.span, m.grid.load = d, span, y.workload(step)
		}
		from = span[1]
	}
	m.other = least > 0
	return m.at(point{0, tokens, batch})
}

// HasLinear reports whether the tables have measurements of a kind of linear attention.
func (t *Tables) HasLinear(kind string) bool {
	_, ok := t.table(linearTable).word(kind)
	return ok
}

func (x *Linear) workload(step LinearStep) workload {
	w := workload{op: linearOp, fixed: 4, dtype: "bfloat16"}
	keys, values := float64(x.KeyHeads*linearSize), float64(x.ValueHeads*linearSize)
	w.each = 4 * (2*keys + values) // read and written as 2-byte values
	if step == Scan || step == Recur {
		w.once, w.ops = 8*values*linearSize, 4*values*linearSize // the state is read and written as 4-byte values
	}
	return w
}
