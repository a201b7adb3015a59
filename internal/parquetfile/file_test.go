package parquetfile

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// openText opens a file in memory.
func openText(text []byte) (*File, error) { return Open(bytes.NewReader(text), int64(len(text))) }

// A file of pyarrow with dictionaries, optional columns and zstd compression.
func TestReadPyarrow(t *testing.T) {
	text, err := os.ReadFile("../../scheduler/optables/wheel/testdata/custom_allreduce_perf.parquet")
	if err != nil {
		t.Fatal(err)
	}
	table, err := openText(text)
	if err != nil {
		t.Fatal(err)
	}
	kernels, err1 := table.Texts("kernel_source")
	gpus, err2 := table.Ints("num_gpus")
	sizes, err3 := table.Ints("message_size")
	ms, err4 := table.Doubles("latency")
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if table.Rows() != 138 || len(kernels) != 138 || len(gpus) != 138 || len(sizes) != 138 || len(ms) != 138 {
		t.Fatalf("%d rows, columns of %d, %d, %d, %d, want 138", table.Rows(), len(kernels), len(gpus), len(sizes), len(ms))
	}
	if kernels[0] != "vLLM_custom_graph" || kernels[1] != "vLLM_custom_eager" || ms[0] != 0.004291520118713379 || ms[1] != 0.020602240562438964 {
		t.Errorf("begins with %s %v, %s %v", kernels[0], ms[0], kernels[1], ms[1])
	}
	if slices.Max(sizes) != 1<<29 || slices.Min(sizes) != 128 || slices.Max(gpus) != 8 {
		t.Errorf("sizes from %d to %d, up to %d GPUs", slices.Min(sizes), slices.Max(sizes), slices.Max(gpus))
	}
	for _, name := range []string{"no such column", "latency"} {
		if _, err := table.Ints(name); err == nil {
			t.Errorf("%s as whole numbers: no error", name)
		}
	}
}

// Files of other writers with missing values, and with all encodings and compressions that users' programs write.
func TestReadOtherWriters(t *testing.T) {
	type plain struct {
		Name *string  `parquet:"name,optional,snappy,dict"`
		N    int64    `parquet:"n,zstd,dict"`
		Ms   *float64 `parquet:"ms,optional"`
	}
	name, ms := "gemm", 1.5
	rows := []plain{{&name, 7, nil}, {nil, 7, &ms}, {&name, 9, &ms}}
	for _, version := range []int{1, 2} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[plain](&b, parquet.DataPageVersion(version))
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		table, err := openText(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		n, err := table.Ints("n")
		if err != nil || !slices.Equal(n, []int64{7, 7, 9}) {
			t.Errorf("version %d: %v, %v", version, n, err)
		}
		names, err := table.Texts("name")
		if err != nil || !slices.Equal(names, []string{"gemm", "", "gemm"}) {
			t.Errorf("version %d: %q, %v", version, names, err)
		}
		times, err := table.Doubles("ms")
		if err != nil || !slices.Equal(times, []float64{0, 1.5, 1.5}) {
			t.Errorf("version %d: %v, %v", version, times, err)
		}
	}
}

// Damaged files cause errors and no panic.
func TestReadDamagedFiles(t *testing.T) {
	text, err := os.ReadFile("../../scheduler/optables/wheel/testdata/custom_allreduce_perf.parquet")
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		damaged := slices.Clone(text)
		for range 1 + draw.IntN(4) {
			damaged[draw.IntN(len(damaged))] = byte(draw.IntN(256))
		}
		readColumns(damaged)
	}
	for n := range text {
		readColumns(text[:n])
	}
}

func FuzzOpen(f *testing.F) {
	text, err := os.ReadFile("../../scheduler/optables/wheel/testdata/custom_allreduce_perf.parquet")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) { readColumns(text) })
}

// readColumns reads columns of each type.
func readColumns(text []byte) {
	table, err := openText(text)
	if err != nil {
		return
	}
	for _, name := range []string{"kernel_source", "num_gpus", "latency"} {
		_, _ = table.Texts(name)
		_, _ = table.Ints(name)
		_, _ = table.Doubles(name)
	}
	rows := table.NewRows()
	for n, err := 0, error(nil); err == nil && n < 1000; n++ {
		_, err = rows.Append(nil)
	}
}

// nested has a field of every type that data sets use.
type nested struct {
	ID     int32    `parquet:"id"`
	Share  *float32 `parquet:"share,optional"`
	IsLong bool     `parquet:"is_long"`
	Hashes []int64  `parquet:"hash_ids,list"`
	Turns  []turn   `parquet:"turns,list"`
	Name   string   `parquet:"name,gzip"`
	At     int64    `parquet:"at,timestamp(microsecond)"`
	Inner  struct {
		Low *int64 `parquet:"low,optional"`
	} `parquet:"inner"`
}

type turn struct {
	Role    string   `parquet:"role,dict"`
	Content *string  `parquet:"content,optional"`
	Words   []string `parquet:"words,list"`
}

// Rows are JSON objects with nested values, also in files with several row groups and pages.
func TestRowsAreJSON(t *testing.T) {
	share, low, text := float32(0.5), int64(-3), "a \"b\"\n"
	rows := []nested{
		{ID: -1, Share: &share, IsLong: true, Hashes: []int64{5, 6, 7}, Turns: []turn{{"user", &text, []string{"x", ""}}, {"bot", nil, nil}}, Name: "n", At: 1_700_000_000_123_456},
		{ID: 2},
		{ID: 3, Hashes: []int64{9}, Turns: []turn{{"user", &text, nil}}},
	}
	rows[1].Inner.Low = &low
	want := []string{
		`{"id":-1,"share":0.5,"is_long":true,"hash_ids":[5,6,7],"turns":[{"role":"user","content":"a \"b\"\n","words":["x",""]},{"role":"bot","content":null,"words":[]}],"name":"n","at":"2023-11-14T22:13:20.123456Z","inner":{"low":null}}`,
		`{"id":2,"share":null,"is_long":false,"hash_ids":[],"turns":[],"name":"","at":"1970-01-01T00:00:00Z","inner":{"low":-3}}`,
		`{"id":3,"share":null,"is_long":false,"hash_ids":[9],"turns":[{"role":"user","content":"a \"b\"\n","words":[]}],"name":"","at":"1970-01-01T00:00:00Z","inner":{"low":null}}`,
	}
	for _, version := range []int{1, 2} {
		for _, o := range []parquet.WriterOption{parquet.Compression(&parquet.Zstd), parquet.Compression(&parquet.Snappy), parquet.PageBufferSize(1), parquet.MaxRowsPerRowGroup(2)} {
			var b bytes.Buffer
			w := parquet.NewGenericWriter[nested](&b, parquet.DataPageVersion(version), o)
			for i := range rows {
				if _, err := w.Write(rows[i : i+1]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := openText(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			r := f.NewRows()
			for i := range want {
				line, err := r.Append(nil)
				if err != nil || string(line) != want[i] {
					t.Errorf("version %d, row %d: %s, %v; must be %s", version, i, line, err, want[i])
				}
			}
			if _, err := r.Append(nil); err != io.EOF {
				t.Errorf("after the last row: %v", err)
			}
		}
	}
}
