package terminal

import (
	"slices"
	"strings"
	"testing"
)

func TestColumnsFit(t *testing.T) {
	wide := strings.Repeat("x", 40)
	all := []Column{
		{Head: [2]string{"", "cell"}, Cells: []string{"0", "10"}},
		{Head: [2]string{"TTFT", "p50"}, Cells: []string{"1.5", wide}, Rank: 1},
		{Head: [2]string{"TTFT", "p99"}, Cells: []string{"é", "3.25"}, Rank: 2},
		{Head: [2]string{"", "load"}, Cells: []string{wide[:30], ""}, Rank: 2},
	}
	kept, left := FitColumns(all)
	if want := []string{"TTFT p99"}; !slices.Equal(left, want) || len(kept) != 3 || len(all) != 4 || all[2].Name() != "TTFT p99" {
		t.Errorf("left out: %q of %d columns, want %q", left, len(all), want)
	}
	want := `        TTFT
  cell   p99
     0     é
    10  3.25
`
	if got := FormatColumns([]Column{all[0], all[2]}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := FormatColumns(all[:1]); got != "  cell\n     0\n    10\n" {
		t.Errorf("heads of one line:\n%s", got)
	}
	all[1].Rank, all[3].Rank = 0, 0
	if kept, _ := FitColumns(all); len(kept) != 3 {
		t.Errorf("%d columns are kept, want 3: what has rank 0 stays", len(kept))
	}
}

func TestWrapText(t *testing.T) {
	long := "  " + strings.Repeat("word ", 16)
	if got, want := WrapText("short\n"+long+"end\n", 2), "short\n"+strings.TrimRight(long[:77], " ")+"\n    word end\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
