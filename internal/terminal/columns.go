package terminal

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Column is one of a table, aligned to the right.
type Column struct {
	Head  [2]string // above each other; the first may be empty
	Cells []string
	// Rank says which columns a table can do without: those of the highest rank go first,
	// those of rank 0 never.
	Rank int
}

// gap is the space before each column.
const gap = 2

func (c *Column) width() int {
	width := max(utf8.RuneCountInString(c.Head[0]), utf8.RuneCountInString(c.Head[1]))
	for _, cell := range c.Cells {
		width = max(width, utf8.RuneCountInString(cell))
	}
	return width
}

// AlignLeft fills cells and head so that they begin below each other.
func (c *Column) AlignLeft() {
	width := c.width()
	fill := func(text *string) { *text += strings.Repeat(" ", width-utf8.RuneCountInString(*text)) }
	for i := range c.Cells {
		fill(&c.Cells[i])
	}
	fill(&c.Head[0])
	fill(&c.Head[1])
}

// Digits returns how many digits after the point a number is shown with where room is
// short: four or five in all.
func Digits(v float64) int {
	switch v = math.Abs(v); {
	case v >= 1000:
		return 0
	case v >= 100:
		return 1
	}
	return 2
}

// Name is the head in one line.
func (c *Column) Name() string { return strings.TrimSpace(c.Head[0] + " " + c.Head[1]) }

// FitColumns returns the columns that fit into Width, in their order, and the names of
// those that had to be left out for it.
func FitColumns(all []Column) (kept []Column, left []string) { return FitColumnsInto(all, Width) }

// FitColumnsInto is FitColumns for a terminal of another width.
func FitColumnsInto(all []Column, width int) (kept []Column, left []string) {
	kept = slices.Clone(all)
	total := 0
	for i := range kept {
		total += gap + kept[i].width()
	}
	for total > width {
		worst := 0
		for i := range kept {
			if kept[i].Rank > kept[worst].Rank {
				worst = i
			}
		}
		if kept[worst].Rank == 0 {
			break
		}
		total -= gap + kept[worst].width()
		left = append(left, kept[worst].Name())
		kept = slices.Delete(kept, worst, worst+1)
	}
	return kept, left
}

// FormatColumns writes columns of as many cells each beside each other.
func FormatColumns(all []Column) string {
	if len(all) == 0 {
		return ""
	}
	lines := make([]strings.Builder, 2+len(all[0].Cells))
	for i := range all {
		c := &all[i]
		width := c.width()
		for k, text := range slices.Concat(c.Head[:], c.Cells) {
			lines[k].WriteString(strings.Repeat(" ", gap+width-utf8.RuneCountInString(text)) + text)
		}
	}
	var b strings.Builder
	for k := range lines {
		line := strings.TrimRight(lines[k].String(), " ")
		if k == 0 && line == "" {
			continue // heads of one line
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
