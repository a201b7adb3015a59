package formula

import (
	"strings"
	"testing"
)

// An invalid expression causes an error with its line. The error for an unknown name suggests the nearest known name.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		text string
		line int
		want string
	}{
		{"runing + 1", 1, "runing is unknown, did you mean running?"},
		{"1 +\n  request.inputtokens", 2, "request.inputtokens is unknown, did you mean request.input_tokens?"},
		{"request", 1, "request is unknown"},
		{"floour(kv_usage)", 1, "floour is unknown, did you mean floor?"},
		{"let x = 1; y", 1, "y is unknown"},
		{"let running = 1; 2", 1, "let running: there is a value or a function of this name, must be a new name"},
		{"let x = 1; let x = 2; x", 1, "let x: there is a value"},
		{"let request = 1; 2", 1, "let request: there is a value"},
		{"let min = 1; 2", 1, "let min: there is a value"},
		{"(let x = 1; x) + x", 1, "x: must be the name of a value"},
		{"len(kind)", 1, "len is unknown"},
		{"1 +", 1, "unexpected token EOF"},
		{"", 1, "unexpected token EOF"},
		{"running + kind", 1, "+ of a number and a text has no meaning here"},
		{"kind + kind", 1, "+ of a text and a text has no meaning here"},
		{`kind < "a" ? 1 : 2`, 1, "< of a text and a text has no meaning here"},
		{"running ** 2", 1, "no ** here, must be one of + - * / % < <= > >= == != and or in ?:"},
		{"kv_usage % 2", 1, "% requires whole numbers"},
		{"running > 2", 1, "the expression is true or false, must be a number"},
		{"kind", 1, "the expression is a text, must be a number"},
		{"ready ? 1 : kind", 1, "true or false ? a number : a text, expected values of one kind by true or false"},
		{"running in 1..3 ? 1 : 0", 1, "in: must be a list behind it, as [1, 2]"},
		{"[1, 2]", 1, "[1, 2]: must be an expression of numbers, names and min, max, sum, mean, count, any, all, abs, floor, ceil, round and lot"},
		{"nil", 1, "nil: must be an expression of numbers"},
		{"min(now)", 1, "min(now): all candidates have the same value, must differ between them"},
		{"lot(1)", 1, "lot has 1 arguments, must have 2"},
		{"sum(1, 2)", 1, "sum has 2 arguments, must have 1"},
		{"count(running)", 1, "count of a number, must be true or false"},
		{"abs(ready)", 1, "abs of true or false, must be a number"},
		{"{a: 1}", 1, `unexpected token Bracket("{")`},
		{"map(running, 1)", 1, "map is unknown, did you mean max?"},
		{"request?.input_tokens", 1, `unexpected token Operator("?.")`},
		{"kind[1:2]", 1, `unexpected token Operator(":")`},
		{`b"x"`, 1, `unexpected token Bytes("x")`},
		{"running ? 1 : 2", 1, "the condition is a number, must be true or false"},
		{"99999999999999999999", 1, "invalid integer literal"},
		{"1 +\n request.", 2, "unexpected end of expression"},
		{strings.Repeat("(", 5000), 1, "the expression has 5000 bytes, must have at most 4096"},
	} {
		_, err := NewLanguage(testNames()).NewProgram().Add(c.text, Number)
		if err == nil || err.Line != c.line || !strings.HasPrefix(err.Text, c.want) {
			t.Errorf("%q: %+v, want line %d: %s", c.text, err, c.line, c.want)
		}
	}
}

// Common subexpressions are evaluated once, and constant subexpressions are not evaluated at all.
func TestStepsAreShared(t *testing.T) {
	p := NewLanguage(testNames()).NewProgram()
	for _, text := range []string{"max(waiting) - waiting", "max(waiting) - waiting + 0 * (2 + 3)", "2 * 3 + 1"} {
		if _, err := p.Add(text, Number); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.steps) != 3 || p.Inputs() != 1 {
		t.Errorf("%d steps on %d inputs, want 3 on 1", len(p.steps), p.Inputs())
	}
}

// Run allocates no memory after Begin.
func TestRunAllocatesNothing(t *testing.T) {
	p, v := threeTerms(t)
	p.Begin(64)
	if n := testing.AllocsPerRun(100, func() {
		p.Begin(64)
		for i := range p.Inputs() {
			clear(p.Input(i))
		}
		p.Run()
		_ = p.Column(v)
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func threeTerms(tb testing.TB) (*Program, Value) {
	p := NewLanguage(testNames()).NewProgram()
	v, err := p.Add("3 * running / request.input_tokens + 2 * (1 - kv_usage) + 2 * (max(waiting) == min(waiting) ? 1 : (max(waiting) - waiting) / (max(waiting) - min(waiting)))", Number)
	if err != nil {
		tb.Fatal(err)
	}
	return p, v
}

// BenchmarkRun evaluates three terms for 8 workers.
func BenchmarkRun(b *testing.B) {
	p, _ := threeTerms(b)
	p.Begin(8)
	b.ReportAllocs()
	for b.Loop() {
		p.Run()
	}
}

// FuzzAdd checks that Add accepts or rejects every text without a panic.
func FuzzAdd(f *testing.F) {
	for _, text := range []string{"running + 1", "min(waiting) * request.input_tokens", "let x = 1; x ? 2 : 3", "kind in ['a']", "1 | min(2)", "running?.x", "if ready { 1 } else { 2 }", "#", "$env", "{a: 1}", "not not ready"} {
		f.Add(text)
	}
	l := NewLanguage(testNames())
	f.Fuzz(func(t *testing.T, text string) {
		p := l.NewProgram()
		v, err := p.Add(text, Number)
		if err != nil {
			if err.Line < 1 || err.Text == "" {
				t.Errorf("%q: %+v, want a line and a complaint", text, err)
			}
			return
		}
		p.Begin(3)
		p.Run()
		if n := len(p.Column(v)); n != 1 && n != 3 {
			t.Errorf("%q: %d values", text, n)
		}
	})
}
