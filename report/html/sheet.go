package html

import (
	"io"
	"slices"

	"github.com/replay-llm/replay/report/sheet"
)

// SheetPage is what goes onto a page of tables.
type SheetPage struct {
	Title  string       `json:"-"`
	Text   string       `json:"text"`   // shown as it is, above the tables; "": none
	Answer *Answer      `json:"answer"` // above the tables; nil: none
	Tables []SheetTable `json:"tables"`
}

// SheetTable is a table with a chart.
type SheetTable struct {
	Title string `json:"title"`
	*sheet.Table
	// X and Y are the columns that the chart shows first, By the one that colours
	// it; "": none.
	X  string `json:"x"`
	Y  string `json:"y"`
	By string `json:"by"`
	// Few are the columns that are shown first, beside all that are settings.
	Few []string `json:"few"`
	// Mark is the column of which the values in Marked are drawn as rings; "": none.
	Mark   string   `json:"mark,omitempty"`
	Marked []string `json:"marked,omitempty"`
}

// WriteSheet writes a page of tables.
func WriteSheet(w io.Writer, p *SheetPage) error {
	data := SheetPage{Text: p.Text, Answer: p.Answer}
	for _, t := range p.Tables {
		t.fillGaps()
		data.Tables = append(data.Tables, t)
	}
	return writePage(w, p.Title, []string{"answer.js", "sheet.js"}, data)
}

// fillGaps makes lists out of nothing, and leaves the choice to the first columns of
// numbers where t has none of the names.
func (t *SheetTable) fillGaps() {
	t.Few = append([]string{}, t.Few...)
	t.Table = &sheet.Table{Columns: t.Columns, Rows: append([][]any{}, t.Rows...)}
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
