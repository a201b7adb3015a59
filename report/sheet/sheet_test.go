package sheet

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func table() *Table {
	t := &Table{Columns: []Column{{Name: "cell", Number: true}, {Name: "router", Setting: true}, {Name: "p99_ttft_ms", Number: true}}}
	for i, text := range []string{"12.5", "", "0.30000000000000004"} {
		t.Rows = append(t.Rows, []any{float64(i), "kv, again", t.Columns[2].Value(text)})
	}
	return t
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := table().WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	if want := "cell,router,p99_ttft_ms\n0,\"kv, again\",12.5\n1,\"kv, again\",\n2,\"kv, again\",0.30000000000000004\n"; b.String() != want {
		t.Errorf("%s, want %s", &b, want)
	}
	b.Reset()
	if err := table().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(b.Bytes(), &rows); err != nil || len(rows) != 3 || rows[2]["p99_ttft_ms"] != 0.30000000000000004 || len(rows[1]) != 2 {
		t.Errorf("%v: %s", err, &b)
	}
	b.Reset()
	if err := (&Table{}).WriteJSON(&b); err != nil || b.String() != "[]\n" {
		t.Errorf("%v: %q", err, &b)
	}
}

// A file holds the columns in their order, and every value.
func TestParquet(t *testing.T) {
	made := table()
	for len(made.Rows) < 3000 {
		made.Rows = append(made.Rows, made.Rows[len(made.Rows)%3])
	}
	var b bytes.Buffer
	if err := made.WriteParquet(&b); err != nil {
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
				ttft, has := want[2].(float64)
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
