package accuracy_test

import (
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/accuracy"
)

// The tables of docs/accuracy.md and of the file of tables match the embedded rows.
func TestTablesOfThePage(t *testing.T) {
	e, err := accuracy.Load()
	if err != nil {
		t.Fatal(err)
	}
	for path, tables := range map[string]map[string]string{"../../docs/accuracy.md": e.PageTables(), accuracy.TablesName: e.Tables()} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, table := range tables {
			if want := "<!-- " + name + ": made by make accuracy -->\n\n" + table + "\n<!-- end of " + name + " -->"; !strings.Contains(string(text), want) {
				t.Errorf("%s: the table of %s is not that of %s: make accuracy writes both", path, name, accuracy.FileName)
			}
		}
	}
}

// The embedded compressed file has the same rows as the JSON file.
func TestPackedFile(t *testing.T) {
	want, err := os.ReadFile(accuracy.FileName)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(accuracy.FileName + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != string(want) {
		t.Errorf("%s.gz does not hold %s (%v): make accuracy writes both", accuracy.FileName, accuracy.FileName, err)
	}
}

// SpreadOf counts every row of a class.
func TestSpread(t *testing.T) {
	rows := []accuracy.Sheet{
		{Run: "a", Class: accuracy.DenseOnOneGPU, TPOT: accuracy.Off{Mean: 12.3}},
		{Run: "b, just started", Class: accuracy.DenseOnOneGPU, TPOT: accuracy.Off{Mean: -18.4}},
		{Run: "c", Class: accuracy.Other, TPOT: accuracy.Off{Mean: -40}},
	}
	s := accuracy.SpreadOf(rows, accuracy.DenseOnOneGPU, func(r *accuracy.Sheet) *float64 { return &r.TPOT.Mean })
	if s.Rows != 2 || s.Least != -18.4 || s.Most != 12.3 {
		t.Errorf("%+v, want -18.4 to +12.3 of 2 rows", s)
	}
	if p99 := accuracy.SpreadOf(rows, accuracy.Other, func(r *accuracy.Sheet) *float64 { return r.TPOT.P99 }); p99.Rows != 0 {
		t.Errorf("%+v of what was not measured", p99)
	}
}

// BandOf returns the narrowest class that has a band.
func TestBandFallsBack(t *testing.T) {
	full := accuracy.Kind{Engine: "vllm", Family: "llama", Weights: "fp8", Generation: "Hopper", GPUs: accuracy.OneGPU, Shape: accuracy.Dense}
	e := &accuracy.Errors{}
	if b, ok := e.BandOf(full); ok {
		t.Errorf("%+v without any class", b)
	}
	levels := full.Levels()
	for i := len(levels) - 1; i >= 0; i-- { // wider classes first, because BandOf must find the narrowest class at any position
		e.Published.Classes = append(e.Published.Classes, accuracy.Band{Kind: levels[i], Rows: 100 + i, Median: -4, Low: -14, High: 6})
		if b, ok := e.BandOf(full); !ok || b.Rows != 100+i {
			t.Errorf("%+v, want the class %v", b, levels[i])
		}
	}
	other := full
	other.Family = "gemma2"
	if b, ok := e.BandOf(other); !ok || b.Family != "" || b.Engine != "vllm" || b.Shape != accuracy.Dense {
		t.Errorf("%+v of a family that was not measured, want the class of dense models under vLLM", b)
	}
	if text := (&accuracy.Band{Median: -4.4, Low: -14, High: 6.2}).Range(); text != "-4 (-14 to +6) %" {
		t.Errorf("%q", text)
	}
}

// The bands of servers with several ranks do not apply to servers with one rank.
func TestBandOfRanks(t *testing.T) {
	one := accuracy.Kind{Engine: "vllm", Family: "deepseek_v3", Weights: "fp8_block", Generation: "Hopper", GPUs: accuracy.SeveralGPUs, Shape: accuracy.WithExperts}
	several := one
	several.Ranks = accuracy.SeveralRanks
	e := &accuracy.Errors{Published: accuracy.Published{Classes: []accuracy.Band{{Kind: several, Rows: 30}, {Kind: accuracy.Kind{Shape: accuracy.WithExperts}, Rows: 400}}}}
	if b, ok := e.BandOf(one); !ok || b.Rows != 400 {
		t.Errorf("%+v of one rank, want the class of all models with experts", b)
	}
	if b, ok := e.BandOf(several); !ok || b.Rows != 30 {
		t.Errorf("%+v of several ranks, want their class", b)
	}
}
