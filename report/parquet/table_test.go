package parquet

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/replay-llm/replay/internal/table"
)

// A file has the columns in their order, and every value.
func TestWriteTable(t *testing.T) {
	made := &table.Table{Columns: []table.Column{{Name: "cell", Number: true}, {Name: "router"}, {Name: "p99_ttft_ms", Number: true}}}
	for i, cell := range []any{table.Number("12.50"), nil, 0.30000000000000004} {
		made.Rows = append(made.Rows, []any{float64(i), "kv, again", cell})
	}
	for len(made.Rows) < 3000 {
		made.Rows = append(made.Rows, made.Rows[len(made.Rows)%3])
	}
	var b bytes.Buffer
	if err := WriteTable(&b, made); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, column := range f.Schema().Columns() {
		names = append(names, column...)
	}
	if got := strings.Join(names, " "); got != "cell router p99_ttft_ms" || f.NumRows() != 3000 {
		t.Errorf("columns %s, %d rows", got, f.NumRows())
	}
	at := 0
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		defer rows.Close()
		buffer := make([]parquet.Row, 100)
		for {
			n, err := rows.ReadRows(buffer)
			for _, row := range buffer[:n] {
				want := made.Rows[at]
				ttft, has := table.Float(want[2])
				if row[0].Double() != want[0] || row[1].String() != want[1] || row[2].IsNull() == has || has && row[2].Double() != ttft {
					t.Fatalf("row %d is %v, want %v", at, row, want)
				}
				at++
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if at != 3000 {
		t.Errorf("%d rows read, want 3000", at)
	}
}
