package table

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func table() *Table {
	t := &Table{Columns: []Column{{Name: "cell", Number: true}, {Name: "router", Setting: true}, {Name: "p99_ttft_ms"}}}
	for i, cell := range []any{"12.50", nil, "0.30000000000000004"} {
		t.Rows = append(t.Rows, []any{float64(i), "kv, again", cell})
	}
	t.FindNumbers(2)
	return t
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := table().WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	if want := "cell,router,p99_ttft_ms\n0,\"kv, again\",12.50\n1,\"kv, again\",\n2,\"kv, again\",0.30000000000000004\n"; b.String() != want {
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
	if !strings.Contains(b.String(), `"p99_ttft_ms":12.5,`) {
		t.Errorf("%s, must have the number", &b)
	}
	b.Reset()
	if err := (&Table{}).WriteJSON(&b); err != nil || b.String() != "[]\n" {
		t.Errorf("%v: %q", err, &b)
	}
}

// A column with a cell that is not a number remains a column of texts.
func TestFindNumbers(t *testing.T) {
	made := New("a", "b")
	made.Add("1", "2")
	made.Add("", "x")
	made.FindNumbers(0)
	made.FindNumbers(1)
	if !made.Columns[0].Number || made.Columns[1].Number || made.Rows[0][0] != Number("1") || made.Rows[1][0] != nil || made.Rows[0][1] != "2" {
		t.Errorf("%+v", made)
	}
}

func TestMarkdown(t *testing.T) {
	made := NewLeft("Metric", "")
	made.AddColumns("a|b")
	made.Add("`x`", "", "1 < 2\n|")
	want := "| Metric | | a\\|b |\n| --- | --- | ---: |\n| `x` |  | 1 &lt; 2 \\| |\n"
	if got := made.Markdown(); got != want {
		t.Errorf("%s\nmust be\n%s", got, want)
	}
}
