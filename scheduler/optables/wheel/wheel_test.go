package wheel

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// A file of pyarrow: dictionaries, optional columns, zstd.
func TestReadPyarrow(t *testing.T) {
	text, err := os.ReadFile("testdata/custom_allreduce_perf.parquet")
	if err != nil {
		t.Fatal(err)
	}
	table, err := readTable(text)
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

// Files with missing values, of every encoding and compression that users' programs write.
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
		table, err := readTable(b.Bytes())
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

// Releases are ordered as their makers do.
func TestCompareVersions(t *testing.T) {
	ordered := []string{"0.1.dev19262", "0.5.6", "0.5.6.post2", "0.5.9", "0.5.10", "0.5.14", "0.24.0", "1.2.0rc5", "1.2.0rc6.post3", "1.3.0rc5", "1.3.0rc20", "1.3.0", "1.3.0.post1", "1.3.1", "2.23", "2.27.3"}
	for i := range ordered {
		for j := range ordered {
			got := compareVersions(ordered[i], ordered[j])
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: %d", ordered[i], ordered[j], got)
			}
		}
	}
}

// Damaged files are errors, and never a panic.
func TestReadDamagedFiles(t *testing.T) {
	text, err := os.ReadFile("testdata/custom_allreduce_perf.parquet")
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

func FuzzReadTable(f *testing.F) {
	text, err := os.ReadFile("testdata/custom_allreduce_perf.parquet")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) { readColumns(text) })
}

// readColumns reads columns of each kind.
func readColumns(text []byte) {
	table, err := readTable(text)
	if err != nil {
		return
	}
	for _, name := range []string{"kernel_source", "num_gpus", "latency"} {
		_, _ = table.Texts(name)
		_, _ = table.Ints(name)
		_, _ = table.Doubles(name)
	}
}
