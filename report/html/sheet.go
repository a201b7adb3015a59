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
	// X and Y are the columns that the chart shows first, By the one that colours
	// it; "": none.
	X  string `json:"x"`
	Y  string `json:"y"`
	By string `json:"by"`
	// Few are the columns that are shown first, behind all that are settings.
	Few []string `json:"few"`
	// Mark is a column: the values in Marked are drawn in separate shapes, and all other values, which are Rest, as
	// discs; "": none.
	Mark   string `json:"mark,omitempty"`
	Marked []Mark `json:"marked,omitempty"`
	Rest   string `json:"rest,omitempty"`
	// Keyed reports that the rows are values of reports: the first column has their keys, a, b and change their values. The
	// table has no chart.
	Keyed bool `json:"keyed,omitempty"`
	// Limits are lines in the chart, by the columns they are about.
	Limits map[string]float64 `json:"limits,omitempty"`
}

// Mark is a value and its text in a legend.
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

// fillGaps makes lists out of nothing, and leaves the choice to the first columns of
// numbers where t has none of the names.
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
