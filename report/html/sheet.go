package html

import (
	"io"
	"slices"

	"github.com/replay-llm/replay/internal/table"
)

// SheetPage is the content of a page of tables.
type SheetPage struct {
	Title  string       `json:"-"`
	Facts  []Facts      `json:"facts"`  // below the tables
	Answer *Answer      `json:"answer"` // above the tables, and its facts below them; nil: none
	Tables []SheetTable `json:"tables"`
}

// SheetTable is a table with a chart.
type SheetTable struct {
	Title string `json:"title"`
	*table.Table
	// X and Y are the columns that the chart shows at first. By is the column that colours the points; "": none.
	X  string `json:"x"`
	Y  string `json:"y"`
	By string `json:"by"`
	// Few are the columns that are shown at first, after all columns of settings.
	Few []string `json:"few"`
	// Mark is the column that selects the shapes of points: each value in Marked has a separate shape, and all other
	// values (Rest) are discs; "": none.
	Mark   string `json:"mark,omitempty"`
	Marked []Mark `json:"marked,omitempty"`
	Rest   string `json:"rest,omitempty"`
	// Keyed reports whether the rows are values of reports. Then the first column has their keys, and the columns a,
	// b and change have their values. The table has no chart.
	Keyed bool `json:"keyed,omitempty"`
	// Limits are lines in the chart, by column.
	Limits map[string]float64 `json:"limits,omitempty"`
}

// Mark is a value and its text in the legend.
type Mark struct {
	Value string `json:"value"`
	Means string `json:"means"`
}

// WriteSheet writes a page of tables.
func WriteSheet(w io.Writer, p *SheetPage) error {
	data := SheetPage{Facts: p.Facts, Answer: p.Answer}
	for _, t := range p.Tables {
		t.fillGaps()
		data.Tables = append(data.Tables, t)
	}
	return writePage(w, &framed{title: p.Title, scripts: []string{"answer.js", "sheet.js"}}, data)
}

// fillGaps replaces nil lists with empty lists. If t does not name the columns of the chart, it selects the first
// numeric columns.
func (t *SheetTable) fillGaps() {
	t.Few = append([]string{}, t.Few...)
	t.Table = t.Clone()
	var numbers []string
	for _, c := range t.Columns {
		if c.Number {
			numbers = append(numbers, c.Name)
		}
	}
	for i, name := range []*string{&t.X, &t.Y} {
		if !slices.Contains(numbers, *name) && len(numbers) > i {
			*name = numbers[i]
		}
	}
}
