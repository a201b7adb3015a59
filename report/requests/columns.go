package requests

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/parquet"
)

// Column is a column of the file.
type Column struct {
	Name string
	// Meaning is a description, with the unit.
	Meaning string
	// Required reports whether every row has a value.
	Required bool
	// Kind is the type of the values in a Parquet file.
	Kind parquet.Kind

	repeats  bool // see Row
	optional bool // see columnsOf

	at func(*Row) reflect.Value // where the value is
}

// Columns returns the columns of the file, in order.
func Columns() []Column {
	kinds := map[reflect.Type]parquet.Kind{
		reflect.TypeFor[int](): parquet.Int64, reflect.TypeFor[Count](): parquet.Int64, reflect.TypeFor[MS](): parquet.Double,
		reflect.TypeFor[string](): parquet.Text, reflect.TypeFor[Verdict](): parquet.Bool,
	}
	var columns []Column
	t := reflect.TypeFor[Row]()
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		if f.Type == reflect.TypeFor[Parts]() {
			columns = append(columns, ledgerParts()...)
			continue
		}
		name, flags, _ := strings.Cut(f.Tag.Get("col"), ",")
		columns = append(columns, Column{
			Name: name, Meaning: f.Tag.Get("means"), Kind: kinds[f.Type],
			Required: f.Type == reflect.TypeFor[int]() || strings.Contains(flags, "required"), repeats: strings.Contains(flags, "repeats"), optional: strings.Contains(flags, "optional"),
			at: func(r *Row) reflect.Value { return reflect.ValueOf(r).Elem().FieldByIndex(f.Index) },
		})
	}
	return columns
}

// columnsOf returns the columns of a file of rows. For an optional column, either all rows or no rows must have a
// value.
func columnsOf(rows []Row) []Column {
	var first Row
	if len(rows) > 0 {
		first = rows[0]
	}
	return slices.DeleteFunc(Columns(), func(c Column) bool {
		switch {
		case !c.optional:
			return false
		case c.Name == frontEndColumn:
			return !first.Parts[ledger.FrontEnd].Known()
		case c.Name == "class":
			return first.Class == ""
		case c.Name == "in_window":
			return first.InWindow == Unjudged
		case c.Name == "round":
			return !first.Round.Known()
		case c.Name == "attempts" || c.Name == "timeouts" || c.Name == "sent_ms":
			return !first.Attempts.Known()
		}
		return first.Outcome == ""
	})
}

// frontEndColumn is only in files of runs with a front end.
const frontEndColumn = "in_front_end_ms"

// ledgerParts returns the columns of the ledger parts, which sum to e2e_ms.
func ledgerParts() []Column {
	columns := make([]Column, 0, len(ledger.Parts()))
	for _, p := range ledger.Parts() {
		columns = append(columns, Column{
			Name: "in_" + p.Key() + "_ms", Meaning: "part of e2e_ms (docs/explain.md): " + p.String(), Kind: parquet.Double,
			optional: p == ledger.FrontEnd,
			repeats:  p != ledger.Prefill && p != ledger.Alone && p != ledger.Stretched, // these are often 0
			at:       func(r *Row) reflect.Value { return reflect.ValueOf(&r.Parts[p]).Elem() },
		})
	}
	return columns
}

// isKnown reports whether v is a known value.
func (c *Column) isKnown(v reflect.Value) bool {
	switch c.Kind {
	case parquet.Int64:
		return v.Int() >= 0
	case parquet.Double:
		return !math.IsNaN(v.Float())
	case parquet.Text:
		return v.Len() > 0
	}
	return v.Int() != int64(Unjudged)
}
