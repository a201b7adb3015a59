package requests

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/report/parquet"
)

// random returns rows in which any value may be unknown.
func random(n int) []Row {
	r := rand.New(rand.NewPCG(1, 1))
	columns := Columns()
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = newRow()
		for j := range columns {
			c := &columns[j]
			if !c.Required && !c.optional && r.IntN(3) == 0 { // all rows have an optional value, or none has
				continue
			}
			switch at := c.at(&rows[i]); c.Kind {
			case parquet.Int64:
				at.SetInt(int64(r.IntN(1 << 40)))
			case parquet.Double:
				at.SetFloat(r.Float64() * math.Pow(10, float64(r.IntN(40)-20)))
			case parquet.Text:
				at.SetString([]string{"a", "x,y", `say "no"`, " b", "zwölf\n", "<&>"}[r.IntN(6)])
			default:
				at.SetInt(int64(verdictOf(r.IntN(2) == 0)))
			}
		}
	}
	return rows
}

// writeFile writes rows to a file in the format of its extension.
func writeFile(path string, rows []Row) error {
	f, err := FormatOf(path)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := Write(&out, f, rows); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o600)
}

// same compares rows to the last bit.
func same(a, b []Row) bool {
	return slices.Equal(linesOf(a), linesOf(b)) && slices.Equal(bitsOf(a), bitsOf(b))
}

// linesOf returns rows as text.
func linesOf(rows []Row) []string {
	var all []string
	for i := range rows {
		line := ""
		for _, c := range Columns() {
			line += " " + strconv.Quote(string(c.appendText(nil, &rows[i], func(dst []byte, s string) []byte { return append(dst, s...) })))
		}
		all = append(all, line)
	}
	return all
}

func bitsOf(rows []Row) []uint64 {
	var all []uint64
	columns := Columns()
	for i := range rows {
		for j := range columns {
			if c := &columns[j]; c.Kind == parquet.Double && c.isKnown(c.at(&rows[i])) {
				all = append(all, math.Float64bits(c.at(&rows[i]).Float()))
			}
		}
	}
	return all
}

// Rows are read back unchanged in all formats.
func TestReadBack(t *testing.T) {
	for _, n := range []int{0, 1, 3000} {
		rows := random(n)
		for _, f := range []Format{Parquet, JSONL, CSV} {
			path := filepath.Join(t.TempDir(), "r."+string(f))
			if err := writeFile(path, rows); err != nil {
				t.Fatal(err)
			}
			got, err := ReadFile(path)
			if err != nil || len(got) != n || n > 0 && !same(got, rows) {
				t.Errorf("%v, %d rows: %d read, %v", f, n, len(got), err)
			}
		}
	}
}

// The same rows give the same bytes, on any number of cores.
func TestSameBytes(t *testing.T) {
	rows := random(700)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, f := range []Format{Parquet, JSONL, CSV} {
		var want []byte
		for _, cores := range []int{1, 2, 3, 8} {
			runtime.GOMAXPROCS(cores)
			var got bytes.Buffer
			if err := Write(&got, f, rows); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got.Bytes()
			}
			if got.Len() == 0 || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%v, %d cores: %d bytes, %d on one core, want the same", f, cores, got.Len(), len(want))
			}
		}
	}
}

// full is a writer that fails after left bytes.
type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// Writing ends with the first error at any position.
func TestFullDisk(t *testing.T) {
	rows := random(1000)
	for _, f := range []Format{Parquet, JSONL, CSV} {
		for _, room := range []int{0, 100, 5_000, 100_000} {
			if err := Write(&full{room}, f, rows); !errors.Is(err, errFull) {
				t.Errorf("%v, room for %d bytes: %v, want that there is none left", f, room, err)
			}
		}
	}
}

// Parallel collection returns each row once.
func TestInParts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cores := range []int{1, 2, 7} {
		runtime.GOMAXPROCS(cores)
		for _, n := range []int{0, 1, rowsPerPart, 3*rowsPerPart - 1, 20*rowsPerPart + 13} {
			times := make([]int, n)
			inParts(n, func(from, to int) {
				for i := from; i < to; i++ {
					times[i]++
				}
			})
			if slices.ContainsFunc(times, func(k int) bool { return k != 1 }) {
				t.Errorf("%d cores, %d rows: not each of them once", cores, n)
			}
		}
	}
}

// Invalid files are rejected with the position of the error.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.txt", "", "must end in .parquet, .arrow, .jsonl or .csv"},
		{"a.jsonl", "{\"id\":0,\"turn\":-1}\n", "turn"},
		{"a.jsonl", "{\"id\":\"x\"}\n", "row 1: id: \"\\\"x\\\"\", must be an integer"},
		{"a.jsonl", "{", "row 1"},
		{"a.csv", "", "no line of names"},
		{"a.csv", "id,turn\n0,0\n", "no column input_tokens"},
		{"a.parquet", "PAR1", "a.parquet"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q in it", c.name, c.text, err, c.want)
		}
	}
}

// kindName returns the name of a type in other readers.
func kindName(k parquet.Kind) string {
	return map[parquet.Kind]string{parquet.Int64: "int64", parquet.Double: "double", parquet.Text: "string", parquet.Bool: "boolean"}[k]
}

// Columns have separate names and meanings, which replay schema requests prints.
func TestColumns(t *testing.T) {
	names := map[string]bool{}
	for _, c := range Columns() {
		if names[c.Name] || c.Meaning == "" {
			t.Errorf("%s: twice, or without a meaning", c.Name)
		}
		names[c.Name] = true
	}
}

// A standard Parquet reader opens the files, with the right types.
func TestPyArrow(t *testing.T) {
	python := optional.Python(t, "pyarrow.parquet")
	path := filepath.Join(t.TempDir(), "r.parquet")
	rows := random(5000)
	if err := writeFile(path, rows); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", `
import sys, pyarrow.parquet as pq
t = pq.read_table(sys.argv[1])
print(t.num_rows)
for f in t.schema: print(f.name, f.type, f.nullable)
print(sum(v for v in t["input_tokens"].to_pylist()))
`, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "5000\n"
	sum := 0
	for _, c := range Columns() {
		kind := strings.Replace(kindName(c.Kind), "boolean", "bool", 1)
		want += fmt.Sprintf("%s %s %s\n", c.Name, kind, map[bool]string{true: "False", false: "True"}[c.Required])
	}
	for i := range rows {
		sum += rows[i].Input
	}
	if want += fmt.Sprintln(sum); string(out) != want {
		t.Errorf("pyarrow reads\n%s\nwant\n%s", out, want)
	}
}

// DuckDB opens the Parquet files, too.
func TestDuckDB(t *testing.T) {
	python := optional.Python(t, "duckdb")
	path := filepath.Join(t.TempDir(), "r.parquet")
	rows := random(5000)
	if err := writeFile(path, rows); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", `
import sys, duckdb
for name, kind, *_ in duckdb.sql(f"describe select * from '{sys.argv[1]}'").fetchall(): print(name, kind)
print(*duckdb.sql(f"select count(*), sum(input_tokens), count(ttft_ms), count(session), count(slo_met) from '{sys.argv[1]}'").fetchall()[0])
`, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := ""
	kinds := map[parquet.Kind]string{parquet.Int64: "BIGINT", parquet.Double: "DOUBLE", parquet.Text: "VARCHAR", parquet.Bool: "BOOLEAN"}
	for _, c := range Columns() {
		want += c.Name + " " + kinds[c.Kind] + "\n"
	}
	sum, known, named, judged := 0, 0, 0, 0
	for i := range rows {
		r := &rows[i]
		sum += r.Input
		for n, is := range map[*int]bool{&known: r.TTFT.Known(), &named: r.Session != "", &judged: r.SLO != Unjudged} {
			if is {
				*n++
			}
		}
	}
	if want += fmt.Sprintln(len(rows), sum, known, named, judged); string(out) != want {
		t.Errorf("duckdb reads\n%s\nwant\n%s", out, want)
	}
}

func BenchmarkWrite(b *testing.B) {
	rows := random(10_000)
	for _, f := range []Format{Parquet, JSONL, CSV} {
		b.Run(string(f), func(b *testing.B) {
			for b.Loop() {
				var out bytes.Buffer
				if err := Write(&out, f, rows); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(out.Len()))
			}
		})
	}
}
