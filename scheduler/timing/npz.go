package timing

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Names of the arrays in a profile file; all other arrays are ignored.
const (
	namePrefillTokens = "prefill_isl"
	namePrefillMS     = "prefill_ttft_ms"
	nameActiveTokens  = "decode_active_kv_tokens"
	nameContextTokens = "decode_context_length"
	nameDecodeMS      = "decode_itl"
)

// maxNPYBytes is the maximum size of one array of a profile.
const maxNPYBytes = 1 << 28

// LoadNPZ reads a profile from a NumPy .npz file: a zip archive of float64 arrays, in either byte order and either
// memory order.
//
// The code does not use a library, because the only known one accepts truncated arrays and panics on damaged headers.
func LoadNPZ(path string) (*Table, error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer archive.Close()
	t, err := readTable(&archive.Reader)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func readTable(archive *zip.Reader) (*Table, error) {
	t := &Table{}
	for _, a := range []struct {
		name string
		into *[]float64
	}{
		{namePrefillTokens, &t.PrefillTokens}, {namePrefillMS, &t.PrefillMS},
		{nameActiveTokens, &t.ActiveTokens}, {nameContextTokens, &t.ContextTokens},
	} {
		got, err := readNamed(archive, a.name)
		if err != nil {
			return nil, err
		}
		if len(got.shape) != 1 {
			return nil, fmt.Errorf("%s has shape %v, must have one dimension", a.name, got.shape)
		}
		*a.into = got.values
	}
	grid, err := readNamed(archive, nameDecodeMS)
	if err != nil {
		return nil, err
	}
	rows, columns := len(t.ActiveTokens), len(t.ContextTokens)
	if len(grid.shape) != 2 || grid.shape[0] != rows || grid.shape[1] != columns {
		return nil, fmt.Errorf("%s has shape %v, expected [%d %d] (%s by %s)",
			nameDecodeMS, grid.shape, rows, columns, nameActiveTokens, nameContextTokens)
	}
	t.DecodeMS = grid.rows()
	return t, t.check()
}

func readNamed(archive *zip.Reader, name string) (array, error) {
	for _, f := range archive.File {
		if f.Name != name+".npy" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return array{}, fmt.Errorf("%s: %w", name, err)
		}
		defer r.Close()
		raw, err := io.ReadAll(io.LimitReader(r, maxNPYBytes+1))
		if err != nil {
			return array{}, fmt.Errorf("%s: %w", name, err)
		}
		if len(raw) > maxNPYBytes {
			return array{}, fmt.Errorf("%s is larger than %d bytes", name, maxNPYBytes)
		}
		a, err := parseNPY(raw)
		if err != nil {
			return array{}, fmt.Errorf("%s: %w", name, err)
		}
		return a, nil
	}
	return array{}, fmt.Errorf("no array %s", name)
}

// array is the content of a .npy file, with values in the order of the file.
type array struct {
	values  []float64
	shape   []int
	fortran bool // the first index runs fastest
}

// rows returns the values of a matrix row by row.
func (a array) rows() []float64 {
	if !a.fortran {
		return a.values
	}
	rows, columns := a.shape[0], a.shape[1]
	out := make([]float64, 0, len(a.values))
	for i := range rows {
		for j := range columns {
			out = append(out, a.values[j*rows+i])
		}
	}
	return out
}

func parseNPY(raw []byte) (array, error) {
	header, data, err := splitNPY(raw)
	if err != nil {
		return array{}, err
	}
	order, a, err := parseHeader(header)
	if err != nil {
		return array{}, err
	}
	count := 1
	for _, n := range a.shape {
		if n != 0 && count > maxNPYBytes/8/n {
			return array{}, fmt.Errorf("shape %v is too large, must be at most %d values", a.shape, maxNPYBytes/8)
		}
		count *= n
	}
	if len(data) != 8*count {
		return array{}, fmt.Errorf("%d bytes of data, must be %d for shape %v", len(data), 8*count, a.shape)
	}
	a.values = make([]float64, count)
	for i := range a.values {
		a.values[i] = math.Float64frombits(order.Uint64(data[8*i:]))
	}
	return a, nil
}

// splitNPY separates the header text from the data.
func splitNPY(raw []byte) (header string, data []byte, err error) {
	const magic = "\x93NUMPY"
	if len(raw) < 10 || string(raw[:6]) != magic {
		return "", nil, fmt.Errorf("not a .npy file")
	}
	from, size := 10, uint64(binary.LittleEndian.Uint16(raw[8:]))
	switch version := raw[6]; {
	case version == 1:
	case (version == 2 || version == 3) && len(raw) >= 12:
		from, size = 12, uint64(binary.LittleEndian.Uint32(raw[8:]))
	default:
		return "", nil, fmt.Errorf(".npy version %d, must be 1, 2 or 3", version)
	}
	if size > uint64(len(raw)-from) {
		return "", nil, fmt.Errorf("header of %d bytes, but only %d follow", size, len(raw)-from)
	}
	end := from + int(size)
	return string(raw[from:end]), raw[end:], nil
}

// parseHeader reads the dictionary at the start of a .npy file, e.g.
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3), }
func parseHeader(header string) (binary.ByteOrder, array, error) {
	var a array
	field := func(key, pattern string) (string, error) {
		m := regexp.MustCompile(`['"]` + key + `['"]\s*:\s*` + pattern).FindStringSubmatch(header)
		if m == nil {
			return "", excerpt.Errorf("no %s in header %q", key, strings.TrimSpace(header))
		}
		return m[1], nil
	}
	descr, err := field("descr", `('[^']*'|"[^"]*"|\[.*\])`)
	if err != nil {
		return nil, a, err
	}
	var order binary.ByteOrder
	switch strings.Trim(descr, `'"`) {
	case "<f8", "=f8":
		order = binary.LittleEndian
	case ">f8":
		order = binary.BigEndian
	default:
		return nil, a, fmt.Errorf("values of type %s, expected float64 ('<f8' or '>f8')", descr)
	}
	fortran, err := field("fortran_order", `(True|False)`)
	if err != nil {
		return nil, a, err
	}
	a.fortran = fortran == "True"
	shape, err := field("shape", `\(([\d,\sL]*)\)`)
	if err != nil {
		return nil, a, err
	}
	for part := range strings.SplitSeq(shape, ",") {
		if part = strings.Trim(part, " L"); part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, a, fmt.Errorf("shape (%s): %w", shape, err)
		}
		a.shape = append(a.shape, n)
	}
	return order, a, nil
}
