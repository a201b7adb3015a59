package accuracy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/accuracy"
)

// Both tables of docs/accuracy.md are those of the rows that the program quotes.
func TestTablesOfThePage(t *testing.T) {
	e, err := accuracy.Load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/accuracy.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]string{"data sheets": e.SheetsTable(), "fits": e.FitsTable()} {
		if want := "made by make accuracy -->\n\n" + table + "\n<!-- end of " + name + " -->"; !strings.Contains(string(text), want) {
			t.Errorf("the table of %s is not that of %s: go run ./tools/accuracy -write docs/accuracy.md writes both", name, accuracy.FileName)
		}
	}
}

// A spread counts every row of a class.
func TestSpread(t *testing.T) {
	e := &accuracy.Errors{Sheets: []accuracy.Sheet{
		{Run: "a", Class: accuracy.DenseOnOneGPU, TPOT: accuracy.Off{Mean: 12.3}},
		{Run: "b, just started", Class: accuracy.DenseOnOneGPU, TPOT: accuracy.Off{Mean: -18.4}},
		{Run: "c", Class: accuracy.Other, TPOT: accuracy.Off{Mean: -40}},
	}}
	s := e.OfSheets(accuracy.DenseOnOneGPU, func(r *accuracy.Sheet) *float64 { return &r.TPOT.Mean })
	if s.Rows != 2 || s.Least != -18.4 || s.Most != 12.3 {
		t.Errorf("%+v, want -18.4 to +12.3 of 2 rows", s)
	}
	if p99 := e.OfSheets(accuracy.Other, func(r *accuracy.Sheet) *float64 { return r.TPOT.P99 }); p99.Rows != 0 {
		t.Errorf("%+v of what was not measured", p99)
	}
}
