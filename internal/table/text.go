package table

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// gap is the space before each column.
const gap = "  "

// widths returns the width of each column in characters.
func (t *Table) widths() []int {
	all := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		all[i] = utf8.RuneCountInString(c.Above)
	}
	for _, line := range t.lines() {
		for i, cell := range line {
			all[i] = max(all[i], utf8.RuneCountInString(cell))
		}
	}
	return all
}

// Fit removes columns until lines have at most width characters. Fit removes columns with the highest Rank first, and
// never removes columns with Rank 0. Fit returns the headings of the removed columns.
func (t *Table) Fit(width int) (left []string) {
	for {
		worst, total := 0, 0
		for i, w := range t.widths() {
			total += len(gap) + w
			if t.Columns[i].Rank > t.Columns[worst].Rank {
				worst = i
			}
		}
		if total <= width || t.Columns[worst].Rank == 0 {
			return left
		}
		c := &t.Columns[worst]
		left = append(left, strings.TrimSpace(c.Above+" "+c.Name))
		t.Remove(worst)
	}
}

// Remove removes a column.
func (t *Table) Remove(column int) {
	t.Columns = slices.Delete(t.Columns, column, column+1)
	for i, row := range t.Rows {
		t.Rows[i] = slices.Delete(row, column, column+1)
	}
}

// Text returns the table as text: headings of one or two lines, and a line per row.
func (t *Table) Text() string {
	widths, lines := t.widths(), t.lines()
	above := make([]string, len(t.Columns))
	for i := range t.Columns {
		above[i] = t.Columns[i].Above
	}
	var b strings.Builder
	for k, line := range slices.Insert(lines, 0, above) {
		var text strings.Builder
		for i, cell := range line {
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 || !t.Flush {
				text.WriteString(gap)
			}
			if t.Columns[i].Left {
				text.WriteString(cell + fill)
			} else {
				text.WriteString(fill + cell)
			}
		}
		whole := strings.TrimRight(text.String(), " ")
		if k < 2 && whole == "" {
			continue // skip an empty heading line
		}
		b.WriteString(whole + "\n")
	}
	return b.String()
}
