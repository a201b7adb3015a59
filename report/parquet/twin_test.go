package parquet

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	library "github.com/parquet-go/parquet-go"
)

// row has a column of every type.
type row struct {
	Yes    bool     `parquet:"yes"`
	Small  int32    `parquet:"small"`
	Real   float64  `parquet:"real"`
	List   []int32  `parquet:"list"`
	Maybe  *float64 `parquet:"maybe,optional"`
	Name   *string  `parquet:"name,optional"`
	Big    int64    `parquet:"big,delta"`
	Known  *int64   `parquet:"known,optional"`
	Told   *bool    `parquet:"told,optional"`
	Forced string   `parquet:"forced"`
}

func (r *row) columns() []Column {
	return []Column{
		{Name: "yes", Kind: Bool}, {Name: "small", Kind: Int32}, {Name: "real", Kind: Double}, {Name: "list", Kind: Int32, List: true},
		{Name: "maybe", Kind: Double, Optional: true}, {Name: "name", Kind: Text, Optional: true}, {Name: "big", Kind: Int64, Delta: true},
		{Name: "known", Kind: Int64, Optional: true}, {Name: "told", Kind: Bool, Optional: true}, {Name: "forced", Kind: Text},
	}
}

func (r *row) add(w *Writer) {
	w.Chunk(0).AddBool(r.Yes)
	w.Chunk(1).AddInt(int64(r.Small))
	w.Chunk(2).AddDouble(r.Real)
	w.Chunk(3).AddList(r.List)
	addOptional(w.Chunk(4), r.Maybe, (*Values).AddDouble)
	addOptional(w.Chunk(5), r.Name, (*Values).AddText)
	w.Chunk(6).AddInt(r.Big)
	addOptional(w.Chunk(7), r.Known, (*Values).AddInt)
	addOptional(w.Chunk(8), r.Told, (*Values).AddBool)
	w.Chunk(9).AddText(r.Forced)
}

func addOptional[T any](c *Chunk, v *T, add func(*Values, T)) {
	if v == nil {
		c.AddNull()
		return
	}
	add(&c.Values, *v)
}

// someRows draws rows. Values rise and fall, are missing for some rows, and repeat.
func someRows(rng *rand.Rand, n int) []row {
	rows := make([]row, n)
	absent := false
	for i := range rows {
		r := &rows[i]
		if rng.IntN(40) == 0 {
			absent = !absent
		}
		*r = row{
			Yes: rng.IntN(3) == 0, Small: int32(rng.IntN(2000) - 1000), Real: float64(i) * 1.5, Big: int64(i) - 50,
			Forced: strings.Repeat(fmt.Sprint(rng.IntN(100)), rng.IntN(12)),
		}
		for range rng.IntN(4) {
			r.List = append(r.List, int32(rng.IntN(9)-4))
		}
		if !absent {
			maybe, name, known, told := -math.Sqrt(rng.Float64()), strings.Repeat("\xff", rng.IntN(20)), rng.Int64()-rng.Int64(), rng.IntN(2) == 0
			r.Maybe, r.Name, r.Known, r.Told = &maybe, &name, &known, &told
		}
	}
	return rows
}

// A file equals the file that parquet-go writes for the same rows, byte for byte.
func TestSameBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		rows, page        int
		statistics, packs bool
	}{{0, 0, true, true}, {1, 0, true, true}, {100, 0, true, false}, {5000, 1 << 12, true, true}, {5000, 1 << 11, false, false}, {40000, 1 << 15, false, true}} {
		rows := someRows(rng, c.rows)
		options := []library.WriterOption{library.DataPageStatistics(c.statistics), library.CreatedBy("replay", "1", "parquet-go")}
		if c.page > 0 {
			options = append(options, library.PageBufferSize(c.page))
		}
		columns := new(row).columns()
		if c.packs {
			options = append(options, library.Compression(&library.Snappy))
			for i := range columns {
				columns[i].Snappy = true
			}
		}
		var want, got bytes.Buffer
		twin := library.NewGenericWriter[row](&want, options...)
		w := NewWriter(&got, columns, Options{Name: "row", PageBytes: c.page, Statistics: c.statistics})
		for i := range rows {
			rows[i].add(w)
			if i%64 == 63 || i == len(rows)-1 {
				for j := range columns {
					if err := w.Chunk(j).EndBatch(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if _, err := twin.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := twin.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%+v: %s", c, firstDifference(t, got.Bytes(), want.Bytes()))
		}
		checkRead(t, got.Bytes(), rows)
	}
}

// firstDifference returns the first difference of two files, in bytes or in metadata.
func firstDifference(t *testing.T, got, want []byte) string {
	t.Helper()
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	a, err := Open(bytes.NewReader(got))
	if err != nil {
		return err.Error()
	}
	b, err := Open(bytes.NewReader(want))
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%d bytes, want %d; they part at %d", len(got), len(want), at)
	for i := range b.meta.Schema {
		if !reflect.DeepEqual(a.meta.Schema[i], b.meta.Schema[i]) {
			return fmt.Sprintf("%s; schema %+v, want %+v", text, a.meta.Schema[i], b.meta.Schema[i])
		}
	}
	for g := range b.meta.RowGroups {
		for i := range b.Columns {
			x, y := a.meta.RowGroups[g].Columns[i], b.meta.RowGroups[g].Columns[i]
			if !reflect.DeepEqual(x, y) {
				return fmt.Sprintf("%s; %s\n%+v, want\n%+v", text, b.Columns[i].Name, x, y)
			}
		}
	}
	return text
}

// checkRead reads a file and compares its rows.
func checkRead(t *testing.T, text []byte, rows []row) {
	t.Helper()
	f, err := Open(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for group, n := range f.Groups() {
		if n != len(rows) {
			t.Fatalf("%d rows in group %d, want %d", n, group, len(rows))
		}
		var all []*Values
		for i := range f.Columns {
			v, err := f.Read(group, i)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		maybe := 0
		for i := range rows {
			r := &rows[i]
			if all[0].Bool(i) != r.Yes || all[1].Int(i) != int64(r.Small) || all[2].Double(i) != r.Real || all[6].Int(i) != r.Big || all[9].Text(i) != r.Forced {
				t.Fatalf("row %d is another", i)
			}
			if (all[4].Defined[i] == 1) != (r.Maybe != nil) {
				t.Fatalf("row %d: a value more or less", i)
			}
			if r.Maybe != nil {
				if all[4].Double(maybe) != *r.Maybe || all[5].Text(maybe) != *r.Name || all[7].Int(maybe) != *r.Known || all[8].Bool(maybe) != *r.Told {
					t.Fatalf("row %d has other values", i)
				}
				maybe++
			}
		}
	}
}

// pair is a row with all types that WriteRows supports.
type pair struct {
	A    int32   `parquet:"a"`
	List []int32 `parquet:"list"`
}

// FuzzReadRows checks that any file is read or rejected.
func FuzzReadRows(f *testing.F) {
	var text bytes.Buffer
	if err := WriteRows(&text, []pair{{1, nil}, {2, []int32{3, 4}}, {5, []int32{6}}}); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "a.parquet")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = ReadRows[pair](path) // the test checks only that it does not panic
	})
}
