package excerpt

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// Cut returns short text unchanged, and long text without broken runes.
func TestCut(t *testing.T) {
	for _, rune := range []string{"x", "é", "世", "🙂"} {
		for n := range 200 {
			text := strings.Repeat(rune, n)
			got := Cut(text)
			switch {
			case got != Cut([]byte(text)):
				t.Errorf("%d of %s: %q of a text, %q of bytes", n, rune, got, Cut([]byte(text)))
			case len(text) <= Most && got != text:
				t.Errorf("%d of %s: got %q", n, rune, got)
			case len(text) > Most && (!strings.HasPrefix(text, strings.TrimSuffix(got, "…")) || len(got) > Most+len("…") || len(got) <= Most-utf8.UTFMax):
				t.Errorf("%d of %s: got %q", n, rune, got)
			}
		}
	}
	if got := Cut(strings.Repeat("\x80", 20_000)); got != strings.Repeat("\x80", Most)+"…" {
		t.Errorf("bytes that begin no rune: got %q", got)
	}
	if got := CutLine("{\n\t\"a\":  1\n}"); got != `{ "a": 1 }` {
		t.Errorf("got %q", got)
	}
}

// CutMiddle returns the beginning of a long error, the number of omitted bytes and the end.
func TestCutMiddle(t *testing.T) {
	const most = 300
	for _, rune := range []string{"x", "é", "世", "🙂"} {
		for n := 1; n < 20_000; n = n*5/4 + 1 {
			text := "begin" + strings.Repeat(rune, n) + "end"
			got := CutMiddle(text, most)
			if len(text) <= most {
				if got != text {
					t.Errorf("%d of %s: got %q", n, rune, got)
				}
				continue
			}
			head, rest, _ := strings.Cut(got, " … (")
			count, tail, _ := strings.Cut(rest, " bytes left out) … ")
			if want := fmt.Sprint(len(text) - len(head) - len(tail)); count != want || len(got) > most || !utf8.ValidString(got) ||
				!strings.HasPrefix(text, head) || !strings.HasPrefix(head, "begin") || !strings.HasSuffix(text, tail) || !strings.HasSuffix(tail, "end") {
				t.Errorf("%d of %s: got %q, want %s bytes left out", n, rune, got, want)
			}
		}
	}
}
