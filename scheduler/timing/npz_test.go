package timing

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// npyFile describes a .npy file to write, with values row by row.
type npyFile struct {
	values  []float64
	shape   string // "(4,)"
	columns int    // columns of a matrix, for Fortran order
	order   string // "<", ">" or "="; empty for "<"
	fortran bool
	version byte // version of the file format; 0 for 1
}

func (n npyFile) bytes() string {
	order := binary.AppendByteOrder(binary.LittleEndian)
	if n.order == ">" {
		order = binary.BigEndian
	} else if n.order == "" {
		n.order = "<"
	}
	word := map[bool]string{true: "True", false: "False"}[n.fortran]
	header := fmt.Sprintf("{'descr': '%sf8', 'fortran_order': %s, 'shape': %s, }\n", n.order, word, n.shape)
	out := []byte("\x93NUMPY\x01\x00")
	if n.version > 1 {
		out[6] = n.version
		out = binary.LittleEndian.AppendUint32(out, uint32(len(header)))
	} else {
		out = binary.LittleEndian.AppendUint16(out, uint16(len(header)))
	}
	out = append(out, header...)
	values := n.values
	if n.fortran && n.columns > 0 {
		values = nil
		for j := range n.columns {
			for i := j; i < len(n.values); i += n.columns {
				values = append(values, n.values[i])
			}
		}
	}
	for _, v := range values {
		out = order.AppendUint64(out, math.Float64bits(v))
	}
	return string(out)
}

// profile returns the profile of the worked example.
func profile() map[string]npyFile {
	return map[string]npyFile{
		"prefill_isl":             {values: []float64{10, 100, 333, 1000}, shape: "(4,)"},
		"prefill_ttft_ms":         {values: []float64{3, 11.7, 30.1, 95.3}, shape: "(4,)"},
		"decode_active_kv_tokens": {values: []float64{0, 50, 200, 1000}, shape: "(4,)"},
		"decode_context_length":   {values: []float64{1, 20, 90}, shape: "(3,)"},
		"decode_itl": {
			values: []float64{1.1, 2.2, 3.3, 2.7, 3.1, 4.9, 5, 6, 9.1, 10.3, 12.9, 20.7},
			shape:  "(4, 3)", columns: 3,
		},
	}
}

func text(p map[string]npyFile) map[string]string {
	out := make(map[string]string)
	for name, f := range p {
		out[name] = f.bytes()
	}
	return out
}

func writeNPZ(t *testing.T, files map[string]string, method uint16) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for name, content := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// The worked example is read in every form that the format allows.
func TestLoadNPZ(t *testing.T) {
	forms := map[string]func(*npyFile){
		"plain":      func(*npyFile) {},
		"fortran":    func(f *npyFile) { f.fortran = true },
		"big endian": func(f *npyFile) { f.order = ">" },
		"native":     func(f *npyFile) { f.order = "=" },
		"version 2":  func(f *npyFile) { f.version = 2 },
		"version 3":  func(f *npyFile) { f.version = 3 },
	}
	for name, change := range forms {
		for _, method := range []uint16{zip.Store, zip.Deflate} {
			t.Run(fmt.Sprintf("%s/%d", name, method), func(t *testing.T) {
				p := profile()
				for key, f := range p {
					change(&f)
					p[key] = f
				}
				p["another"] = npyFile{shape: "()", values: []float64{1}}
				table, err := LoadNPZ(writeNPZ(t, text(p), method))
				if err != nil {
					t.Fatal(err)
				}
				checkWorked(t, table, 219.58100000000002, 124.50788599999998)
			})
		}
	}
}

// checkWorked runs the request of the worked example: 1000 prompt tokens in two blocks of 512, and three output
// tokens.
func checkWorked(t *testing.T, table *Table, ttft, gap float64) {
	t.Helper()
	c := Clock{Model: table, Speedup: 1, DecodeSpeedup: 1}
	now := 0.0
	prefill, err := c.Prefill(1, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	now += prefill
	var at []float64
	for context := 1000; context < 1003; context++ {
		ms, err := c.Decode(1, 1024, context, 16384*512)
		if err != nil {
			t.Fatal(err)
		}
		now += ms
		at = append(at, now)
	}
	if at[0] != ttft || max(at[1]-at[0], at[2]-at[1]) != gap {
		t.Errorf("tokens at %v, want the first at %v and the largest gap %v", at, ttft, gap)
	}
}

// Extrapolated times are at least the minimum time of a pass.
func TestTableClamps(t *testing.T) {
	p := profile()
	f := p["prefill_ttft_ms"]
	f.values = []float64{-300, -200, -100, -50}
	p["prefill_ttft_ms"] = f
	for i := range p["decode_itl"].values {
		p["decode_itl"].values[i] *= 0.01
	}
	table, err := LoadNPZ(writeNPZ(t, text(p), zip.Store))
	if err != nil {
		t.Fatal(err)
	}
	checkWorked(t, table, 1.24281, 1.245079)
	if got := table.Decode(1, 0, 1, 1); got != 1 {
		t.Errorf("decode = %v ms, want at least 1", got)
	}
}

// A grid point belongs to the cell that begins with it. Points outside the grid belong to the cells at the edges.
func TestCell(t *testing.T) {
	axis := []float64{1, 2, 4, 8}
	for x, want := range map[float64]int{-5: 0, 1: 0, 1.5: 0, 2: 1, 3.9: 1, 4: 2, 7: 2, 8: 2, 100: 2} {
		if got := findCell(axis, x); got != want {
			t.Errorf("cell of %v = %d, want %d", x, got, want)
		}
	}
}

// Every error names the file, the array and the problem.
func TestLoadNPZErrors(t *testing.T) {
	set := func(name string, f npyFile) func(map[string]string) {
		return func(m map[string]string) { m[name] = f.bytes() }
	}
	swap := func(name, old, new string) func(map[string]string) {
		return func(m map[string]string) {
			raw := []byte(strings.Replace(m[name], old, new, 1))
			raw[8] += byte(len(new) - len(old)) // the header's length
			m[name] = string(raw)
		}
	}
	for _, c := range []struct {
		change func(map[string]string)
		want   string
	}{
		{func(m map[string]string) { delete(m, "decode_itl") }, "no array decode_itl"},
		{swap("prefill_isl", "<f8", "<i8"), `prefill_isl: values of type '<i8', expected float64`},
		{swap("decode_itl", "<f8", "<f4"), `decode_itl: values of type '<f4', expected float64`},
		{swap("decode_itl", "'<f8'", "[('a', '<f8')]"), `decode_itl: values of type [('a', '<f8')]`},
		{swap("decode_itl", "(4, 3)", "(3, 4)"), "decode_itl has shape [3 4], expected [4 3]"},
		{swap("decode_itl", "(4, 3)", "(12,)"), "decode_itl has shape [12], expected [4 3]"},
		{swap("decode_itl", "(4, 3)", "(4, 4)"), "decode_itl: 96 bytes of data, must be 128 for shape [4 4]"},
		{swap("prefill_isl", "(4,)", "(2, 2)"), "prefill_isl has shape [2 2], must have one dimension"},
		{swap("prefill_isl", "(4,)", "(99999999999,)"), "prefill_isl: shape [99999999999] is too large"},
		{swap("prefill_isl", "(4,)", "(99999999999999999999,)"), "prefill_isl: shape (99999999999999999999,)"},
		{swap("prefill_isl", "shape", "shade"), "prefill_isl: no shape in header"},
		{swap("prefill_isl", "False", "Maybe"), "prefill_isl: no fortran_order in header"},
		{swap("prefill_isl", "descr", "descl"), "prefill_isl: no descr in header"},
		{swap("prefill_isl", "NUMPY", "NUMPH"), "prefill_isl: not a .npy file"},
		{swap("prefill_isl", "NUMPY\x01", "NUMPY\x04"), "prefill_isl: .npy version 4, must be 1, 2 or 3"},
		{func(m map[string]string) { m["prefill_isl"] = m["prefill_isl"][:20] }, "but only 10 follow"},
		{func(m map[string]string) { m["prefill_isl"] += "x" }, "prefill_isl: 33 bytes of data, must be 32"},
		{set("prefill_ttft_ms", npyFile{values: []float64{1}, shape: "(1,)"}), "prefill_ttft_ms has 1 values, must have 4 as in prefill_isl"},
		{set("prefill_isl", npyFile{values: []float64{1}, shape: "(1,)"}), "prefill_isl has 1 points, must have at least 2"},
		{set("prefill_isl", npyFile{values: []float64{1, 2, 2, 3}, shape: "(4,)"}), "prefill_isl[2] is 2 after 2, must be strictly rising"},
		{set("decode_context_length", npyFile{values: []float64{1, 3, 2}, shape: "(3,)"}), "decode_context_length[2] is 2 after 3"},
		{set("decode_active_kv_tokens", npyFile{values: []float64{0, 1, 2, math.Inf(1)}, shape: "(4,)"}), "decode_active_kv_tokens[3] is +Inf, must be a finite number"},
		{set("prefill_ttft_ms", npyFile{values: []float64{0, 1, math.NaN(), 3}, shape: "(4,)"}), "prefill_ttft_ms[2] is NaN"},
	} {
		t.Run(c.want, func(t *testing.T) {
			files := text(profile())
			c.change(files)
			path := writeNPZ(t, files, zip.Deflate)
			_, err := LoadNPZ(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("LoadNPZ: %v, want %s: … %s", err, path, c.want)
			}
		})
	}
}

func TestLoadNPZWithoutArchive(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.npz")
	plain := filepath.Join(t.TempDir(), "plain.npz")
	if err := os.WriteFile(plain, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{missing, plain} {
		if _, err := LoadNPZ(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("LoadNPZ(%s): %v, want an error that names the file", path, err)
		}
	}
}

// Any bytes are parsed as an array or rejected.
func FuzzNPY(f *testing.F) {
	for _, a := range profile() {
		f.Add([]byte(a.bytes()))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := parseNPY(raw)
		if err == nil && len(a.shape) == 2 && len(a.rows()) != len(a.values) {
			t.Fatalf("%d values in rows, %d in the file", len(a.rows()), len(a.values))
		}
	})
}
