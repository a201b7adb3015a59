package html

import (
	"io"
	"slices"

	"github.com/replay-llm/replay/report/sheet"
)

// SheetPage is what goes onto a page of tables.
type SheetPage struct {
	Title  string
	Text   string // shown as it is, above the tables; "": none
	Tables []SheetTable
}

// SheetTable is a table with a chart.
type SheetTable struct {
	Title string
	Table *sheet.Table
	// X and Y are the columns that the chart shows first, By the one that colours
	// it; "": none.
	X, Y, By string
	// Few are the columns that are shown first, beside all that are settings.
	Few []string
}

// sheetData is a table as the page's script takes it.
type sheetData struct {
	Title   string        `json:"title"`
	Columns []sheetColumn `json:"columns"`
	Rows    [][]any       `json:"rows"`
	X       string        `json:"x"`
	Y       string        `json:"y"`
	By      string        `json:"by"`
	Few     []string      `json:"few"`
}

type sheetColumn struct {
	Name    string `json:"name"`
	Number  bool   `json:"number"`
	Setting bool   `json:"setting"`
}

// WriteSheet writes a page of tables.
func WriteSheet(w io.Writer, p *SheetPage) error {
	data := struct {
		Text   string      `json:"text"`
		Tables []sheetData `json:"tables"`
	}{Text: p.Text}
	for i := range p.Tables {
		data.Tables = append(data.Tables, newSheetData(&p.Tables[i]))
	}
	return writePage(w, p.Title, "sheet.js", data)
}

func newSheetData(t *SheetTable) sheetData {
	d := sheetData{Title: t.Title, X: t.X, Y: t.Y, By: t.By, Few: slices.Clone(t.Few), Rows: t.Table.Rows}
	if d.Few == nil {
		d.Few = []string{}
	}
	if d.Rows == nil {
		d.Rows = [][]any{}
	}
	var numbers []string
	for _, c := range t.Table.Columns {
		d.Columns = append(d.Columns, sheetColumn(c))
		if c.Number {
			numbers = append(numbers, c.Name)
		}
	}
	// Columns that this table does not have leave the choice to the first ones.
	for i, name := range []*string{&d.X, &d.Y} {
		if !slices.Contains(numbers, *name) && len(numbers) > i {
			*name = numbers[i]
		}
	}
	return d
}
