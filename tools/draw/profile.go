package draw

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// drawProfile draws a table of pass times as an .npz file. The axes of the table are ascending. The times of the
// table rise and fall.
func (d *Drawer) drawProfile() []byte {
	axis := func(largest int) []float64 {
		points := make([]float64, 2+d.IntN(5))
		for i := range points {
			points[i] = float64(d.IntN(largest*4)) / 4
		}
		slices.Sort(points)
		for i := 1; i < len(points); i++ {
			points[i] = max(points[i], points[i-1]+0.25)
		}
		return points
	}
	times := func(n int, most float64) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = d.Float64() * most
		}
		return values
	}
	prompts, active, context := axis(2000), axis(20000), axis(1000)
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, a := range []struct {
		name   string
		shape  string
		values []float64
	}{
		{"prefill_isl", fmt.Sprintf("(%d,)", len(prompts)), prompts},
		{"prefill_ttft_ms", fmt.Sprintf("(%d,)", len(prompts)), times(len(prompts), 80)},
		{"decode_active_kv_tokens", fmt.Sprintf("(%d,)", len(active)), active},
		{"decode_context_length", fmt.Sprintf("(%d,)", len(context)), context},
		{"decode_itl", fmt.Sprintf("(%d, %d)", len(active), len(context)), times(len(active)*len(context), 30)},
	} {
		w, err := archive.Create(a.name + ".npy")
		if err != nil {
			panic(err) // writes to memory always succeed
		}
		if _, err := w.Write(encodeNPY(a.shape, a.values)); err != nil {
			panic(err)
		}
	}
	if err := archive.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// encodeNPY returns an array as a .npy file.
func encodeNPY(shape string, values []float64) []byte {
	header := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", shape)
	const align = 64
	for (10+len(header)+1)%align != 0 {
		header += " "
	}
	header += "\n"
	out := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	out = append(out, header...)
	out, err := binary.Append(out, binary.LittleEndian, values)
	if err != nil {
		panic(err) // float64 slices always encode
	}
	return out
}
