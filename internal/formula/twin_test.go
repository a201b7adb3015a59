package formula

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/expr-lang/expr"

	"github.com/replay-llm/replay/sim"
)

// testNames returns the names that test expressions read.
func testNames() []Name {
	return []Name{
		{"running", Integer, true, false}, {"waiting", Integer, true, false}, {"kv_usage", Number, true, false}, {"kind", Text, true, false}, {"ready", Bool, true, false},
		{"request.input_tokens", Integer, false, false}, {"request.class", Text, false, false}, {"now", Number, false, false},
	}
}

// pair is an expression in the language of this package and in the language of the library. In the library, the value
// of a candidate is a field of an element of a list.
type pair struct{ ours, library string }

// join formats both expressions of the pairs with one format.
func join(format string, of ...pair) pair {
	var ours, library []any
	for _, x := range of {
		ours, library = append(ours, x.ours), append(library, x.library)
	}
	return pair{fmt.Sprintf(format, ours...), fmt.Sprintf(format, library...)}
}

// writer writes random expressions.
type writer struct {
	*rand.Rand
	lets int // number of names declared so far
}

func (w *writer) pick(all ...string) string { return all[w.IntN(len(all))] }

// over returns a call of a function over all candidates. In the library its argument is a list.
func (w *writer) over(function string, of pair) pair {
	return pair{function + "(" + of.ours + ")", function + "(map(candidates, " + of.library + "))"}
}

// number returns an expression of a number. If whole is true, the number has no fraction.
func (w *writer) number(depth int, whole bool) pair {
	if depth == 0 {
		name := w.pick("running", "waiting", "kv_usage", "3", "0", "17", "0.5", "now", "request.input_tokens")
		for whole && strings.Contains("kv_usage 0.5 now", name) {
			name = w.pick("running", "waiting", "request.input_tokens")
		}
		if strings.Contains("running waiting kv_usage", name) {
			return pair{name, "." + name}
		}
		return pair{name, name}
	}
	next := func() pair { return w.number(depth-1, whole) }
	switch w.IntN(11) {
	case 0, 1, 2:
		return join("(%s "+w.pick("+", "-", "*")+" %s)", next(), next())
	case 3:
		if whole {
			return join("(%s %% (abs(%s) + 1))", next(), next())
		}
		return join("(%s / (abs(%s) + 1))", next(), next())
	case 4:
		return join("("+w.pick("min", "max")+"(%s, %s))", next(), next())
	case 5:
		return join("(%s ? %s : %s)", w.truth(depth-1), next(), next())
	case 6:
		return join("(-%s)", next())
	case 7:
		if whole {
			return w.over("count", w.each(w.truth(depth-1), "running > 2"))
		}
		return join(w.pick("abs", "floor", "ceil", "round")+"(%s)", next())
	case 8:
		w.lets++
		v := fmt.Sprint("v", w.lets)
		return join("(let "+v+" = %s; "+v+" * "+v+" - %s)", next(), next())
	}
	function := w.pick("min", "max", "sum", "mean")
	if whole {
		function = w.pick("min", "max", "sum")
	}
	return w.over(function, w.each(join("%s", next()), "running"))
}

// each returns x if its value certainly differs by candidate, and otherwise the name.
func (w *writer) each(x pair, name string) pair {
	for _, n := range []string{"running", "waiting", "kv_usage"} {
		if outside(x.ours, n) {
			return x
		}
	}
	return pair{name, "." + name}
}

// outside reports whether text contains the name and no call of a function over all candidates.
func outside(text, name string) bool {
	return strings.Contains(text, name) && !strings.Contains(text, "min(") && !strings.Contains(text, "max(") &&
		!strings.Contains(text, "sum(") && !strings.Contains(text, "mean(") && !strings.Contains(text, "count(")
}

// truth returns an expression of kind Bool.
func (w *writer) truth(depth int) pair {
	if depth == 0 {
		switch w.IntN(4) {
		case 0:
			return pair{"ready", ".ready"}
		case 1:
			return pair{`kind == "b"`, `.kind == "b"`}
		case 2:
			return pair{`kind in ["a", "c"]`, `.kind in ["a", "c"]`}
		}
		return pair{`request.class != "batch"`, `request.class != "batch"`}
	}
	switch w.IntN(4) {
	case 0:
		return join("(%s "+w.pick("<", "<=", ">", ">=", "==", "!=")+" %s)", w.number(depth-1, false), w.number(depth-1, false))
	case 1:
		return join("(%s "+w.pick("and", "or", "&&", "||")+" %s)", w.truth(depth-1), w.truth(depth-1))
	case 2:
		return join("(%s in [%s, %s])", w.number(depth-1, true), w.number(0, true), w.number(0, true))
	}
	return join("not (%s)", w.truth(depth-1))
}

// world returns candidates with random values.
func (w *writer) world() []map[string]any {
	all := make([]map[string]any, 1+w.IntN(9))
	for i := range all {
		all[i] = map[string]any{
			"running": w.IntN(9), "waiting": w.IntN(3), "kv_usage": w.Float64(), "kind": w.pick("a", "b", "c"), "ready": w.IntN(2) == 0,
		}
	}
	return all
}

// fill sets the inputs of a program to the values of candidates and of a request.
func fill(p *Program, l *Language, candidates []map[string]any, request map[string]any) {
	p.Begin(len(candidates))
	for i := range p.Inputs() {
		n := l.names[p.NameOf(i)]
		for k := range p.Input(i) {
			value := candidates[k][n.Name]
			switch n.Name {
			case "now":
				value = request["now"]
			case "request.input_tokens":
				value = request["request"].(map[string]any)["input_tokens"]
			case "request.class":
				value = request["request"].(map[string]any)["class"]
			}
			p.Input(i)[k] = asNumber(l, value)
		}
	}
	p.Run()
}

func asNumber(l *Language, value any) float64 {
	switch x := value.(type) {
	case int:
		return float64(x)
	case bool:
		return asTruth(x)
	case string:
		return l.NumberOf(x)
	}
	return value.(float64)
}

// The columns of this package equal the results of the library's virtual machine, which evaluates one candidate at a
// time.
func TestTwin(t *testing.T) {
	w := &writer{Rand: sim.NewRand(1, "formula")}
	l := NewLanguage(testNames())
	for range 3000 {
		text, want := w.number(1+w.IntN(4), w.IntN(2) == 0), Number
		if w.IntN(3) == 0 {
			text, want = w.truth(1+w.IntN(4)), Bool
		}
		if len(text.ours) > longest {
			continue
		}
		p := l.NewProgram()
		v, complaint := p.Add(text.ours, want)
		if complaint != nil {
			t.Fatalf("%s: %v", text.ours, complaint)
		}
		// In the library a candidate is an element of a list.
		machine, err := expr.Compile("map(this, "+text.library+")", expr.Env(map[string]any{
			"candidates": []map[string]any{}, "this": []map[string]any{}, "now": 0.0, "request": map[string]any{},
		}))
		if err != nil {
			t.Fatalf("%s: %v", text.library, err)
		}
		for range 3 {
			candidates := w.world()
			env := map[string]any{"candidates": candidates, "now": 3 * w.Float64(), "request": map[string]any{"input_tokens": w.IntN(90), "class": w.pick("batch", "chat")}}
			fill(p, l, candidates, env)
			for i := range candidates {
				env["this"] = candidates[i : i+1]
				out, err := expr.Run(machine, env)
				if err != nil {
					t.Fatalf("%s: %v", text.library, err)
				}
				got, want := p.Column(v)[0], asNumber(l, out.([]any)[0])
				if v.Each() {
					got = p.Column(v)[i]
				}
				if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Fatalf("%s of candidate %d of %v: %v, and %v by the library", text.ours, i, candidates, got, want)
				}
			}
		}
	}
}
