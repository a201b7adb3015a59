package table

import (
	"slices"
	"strings"
	"testing"
)

func narrow(ranks ...int) *Table {
	t := New("cell", "TTFT\np50", "TTFT\np99", "load")
	for i, rank := range ranks {
		t.Columns[i].Rank = rank
	}
	t.Add("0", "1.5", "é", strings.Repeat("x", 30))
	t.Add("10", strings.Repeat("x", 40), "3.25", "")
	return t
}

func TestFit(t *testing.T) {
	all := narrow(0, 1, 2, 2)
	if left := all.Fit(80); !slices.Equal(left, []string{"TTFT p99"}) || len(all.Columns) != 3 || len(all.Rows[1]) != 3 {
		t.Errorf("left out: %q, %d columns", left, len(all.Columns))
	}
	all = narrow(0, 0, 2, 0)
	if all.Fit(10); len(all.Columns) != 3 {
		t.Errorf("%d columns, must be 3: those of rank 0 stay", len(all.Columns))
	}
	all.Remove(1)
	all = narrow()
	all.Remove(1)
	all.Remove(2)
	want := `        TTFT
  cell   p99
     0     é
    10  3.25
`
	if got := all.Text(); got != want {
		t.Errorf("got\n%smust be\n%s", got, want)
	}
	all.Remove(1)
	if got := all.Text(); got != "  cell\n     0\n    10\n" {
		t.Errorf("headings of one line:\n%s", got)
	}
}

func TestLeft(t *testing.T) {
	all := NewLeft("", "")
	all.Add("a", "bc")
	all.Add("def", "")
	if got := all.Text(); got != "  a    bc\n  def\n" {
		t.Errorf("%q", got)
	}
	all.Flush = true
	if got := all.Text(); got != "a    bc\ndef\n" {
		t.Errorf("%q", got)
	}
}
