package tidy

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// Every row of a Markdown table has the same number of cells as the header, because GitHub drops additional cells. A
// bar inside a cell is escaped as \|, also in code.
func TestTablesAreWellFormed(t *testing.T) {
	ruler := regexp.MustCompile(`^\|(\s*:?-+:?\s*\|)+$`)
	tables := 0
	for _, name := range listFiles(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		lines := strings.Split(blankFences(readFile(t, name)), "\n")
		width := 0 // number of columns of the table, 0 outside of a table
		for i, line := range lines {
			line = strings.TrimSpace(line)
			switch {
			case !strings.HasPrefix(line, "|"):
				width = 0
			case width == 0:
				width = countCells(line)
				if tables++; i+1 == len(lines) || !ruler.MatchString(strings.TrimSpace(lines[i+1])) {
					t.Errorf("%s:%d: a table without a row of | --- | below its header", name, i+1)
				}
			}
			if cells := countCells(line); width > 0 && cells != width {
				t.Errorf("%s:%d: %d cells, want %d as in the header: %s", name, i+1, cells, width, line)
			}
		}
	}
	if tables < 60 {
		t.Errorf("%d tables, want all", tables)
	}
}

// countCells returns the number of cells of a row. The row begins and ends with a bar.
func countCells(row string) int { return strings.Count(strings.ReplaceAll(row, `\|`, ""), "|") - 1 }
