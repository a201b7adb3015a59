package terminal

import (
	"strings"
	"testing"
)

func TestWrapLine(t *testing.T) {
	for _, c := range []struct {
		line   string
		indent int
		want   string
	}{
		{"", 2, ""},
		{"short", 2, "short"},
		{strings.Repeat("x", 80), 2, strings.Repeat("x", 80)},
		{strings.Repeat("x", 100), 2, strings.Repeat("x", 100)},
		{strings.Repeat("x", 80) + " y", 2, strings.Repeat("x", 80) + "\n  y"},
		{strings.Repeat("x", 81) + " y", 2, strings.Repeat("x", 81) + "\n  y"},
		{strings.Repeat("é", 78) + " y " + strings.Repeat("z", 5), 3, strings.Repeat("é", 78) + " y\n   zzzzz"},
		{strings.Repeat("word ", 32) + "end", 4, strings.TrimSpace(strings.Repeat("word ", 16)) + "\n    " +
			strings.TrimSpace(strings.Repeat("word ", 15)) + "\n    word end"},
		{"  key: " + strings.Repeat("x", 90), 4, "  key:\n    " + strings.Repeat("x", 90)},
		{"  key: " + strings.Repeat("x", 90), 7, "  key: " + strings.Repeat("x", 90)},
	} {
		if got := WrapLine(c.line, c.indent); got != c.want {
			t.Errorf("%q, %d:\n%s\nwant\n%s", c.line, c.indent, got, c.want)
		}
	}
}

func TestWrapText(t *testing.T) {
	long := "  " + strings.Repeat("word ", 16)
	if got, want := WrapText("short\n"+long+"end\n", 2), "short\n"+strings.TrimRight(long[:77], " ")+"\n    word end\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
