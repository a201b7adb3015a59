package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// Values are the values of a column, in a page or in a row group.
type Values struct {
	column *Column

	plain []byte   // in the encoding Plain, but with one byte per Bool; not for texts
	texts []byte   // concatenated
	ends  []uint32 // where each text begins, and the last one ends

	// Defined reports for each entry whether it has a value, and Further whether it belongs to the same row as the
	// previous entry; nil if every row has one value.
	Defined, Further []byte
}

// Len returns the number of entries, with and without a value.
func (v *Values) Len() int {
	if v.column.hasLevels() {
		return len(v.Defined)
	}
	return v.countValues()
}

func (v *Values) countValues() int {
	if v.column.Kind == Text {
		return max(0, len(v.ends)-1)
	}
	return len(v.plain) / v.column.valueWidth()
}

func (v *Values) countRows() int { return v.Len() - bytes.Count(v.Further, []byte{1}) }

func (v *Values) reset() {
	v.plain, v.texts, v.ends, v.Defined, v.Further = v.plain[:0], v.texts[:0], v.ends[:0], v.Defined[:0], v.Further[:0]
}

// encodedAt returns the i-th value, encoded. Entries without a value do not count.
func (v *Values) encodedAt(i int) []byte {
	if v.column.Kind == Text {
		return v.texts[v.ends[i]:v.ends[i+1]]
	}
	width := v.column.valueWidth()
	return v.plain[i*width : (i+1)*width]
}

// Bool returns the i-th value. Entries without a value do not count.
func (v *Values) Bool(i int) bool { return v.plain[i] == 1 }

// Int returns the i-th value. Entries without a value do not count.
func (v *Values) Int(i int) int64 {
	if v.column.Kind == Int32 {
		return int64(int32(binary.LittleEndian.Uint32(v.encodedAt(i))))
	}
	return int64(binary.LittleEndian.Uint64(v.plain[8*i:]))
}

// Double returns the i-th value. Entries without a value do not count.
func (v *Values) Double(i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(v.plain[8*i:]))
}

// Text returns the i-th value. Entries without a value do not count.
func (v *Values) Text(i int) string { return string(v.encodedAt(i)) }

// AddBool adds a row with a value.
func (v *Values) AddBool(b bool) {
	v.plain = append(v.plain, 0)
	if b {
		v.plain[len(v.plain)-1] = 1
	}
	v.addRow(1)
}

// AddInt adds a row with a value.
func (v *Values) AddInt(n int64) { v.appendInt(n); v.addRow(1) }

func (v *Values) appendInt(n int64) {
	if v.column.Kind == Int32 {
		v.plain = binary.LittleEndian.AppendUint32(v.plain, uint32(n))
	} else {
		v.plain = binary.LittleEndian.AppendUint64(v.plain, uint64(n))
	}
}

// AddDouble adds a row with a value.
func (v *Values) AddDouble(x float64) {
	v.plain = binary.LittleEndian.AppendUint64(v.plain, math.Float64bits(x))
	v.addRow(1)
}

// AddText adds a row with a value.
func (v *Values) AddText(s string) { v.appendText([]byte(s)); v.addRow(1) }

func (v *Values) appendText(s []byte) {
	if len(v.ends) == 0 {
		v.ends = append(v.ends, 0)
	}
	v.texts = append(v.texts, s...)
	v.ends = append(v.ends, uint32(len(v.texts)))
}

// AddNull adds a row without a value.
func (v *Values) AddNull() { v.addRow(0) }

func (v *Values) addRow(defined byte) {
	if v.column.hasLevels() {
		v.Defined = append(v.Defined, defined)
	}
	if v.column.List {
		v.Further = append(v.Further, 0)
	}
}

// AddList adds a row with a list of values.
func (v *Values) AddList(values []int32) {
	if len(values) == 0 {
		v.AddNull()
	}
	for i, n := range values {
		v.AddInt(int64(n))
		if i > 0 {
			v.Further[len(v.Further)-1] = 1
		}
	}
}

// findBounds returns the smallest and the largest value, encoded; nil without values.
func (v *Values) findBounds() (low, high []byte) {
	n := v.countValues()
	if n == 0 {
		return nil, nil
	}
	low, high = v.encodedAt(0), v.encodedAt(0)
	for i := 1; i < n; i++ {
		at := v.encodedAt(i)
		if v.column.compareEncoded(at, low) < 0 {
			low = at
		} else if v.column.compareEncoded(at, high) > 0 {
			high = at
		}
	}
	return append([]byte{}, low...), append([]byte{}, high...)
}

// compareEncoded orders two encoded values.
func (c *Column) compareEncoded(a, b []byte) int {
	switch c.Kind {
	case Int32:
		return cmp.Compare(int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
	case Int64:
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	case Double:
		return cmp.Compare(math.Float64frombits(binary.LittleEndian.Uint64(a)), math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return bytes.Compare(a, b)
}

// encodeLevels encodes levels of 0 and 1.
func encodeLevels(levels []byte) ([]byte, error) {
	return (&rle.Encoding{BitWidth: 1}).EncodeLevels(nil, levels)
}

// encodeValues returns the values in the encoding of a page.
func (v *Values) encodeValues() ([]byte, error) {
	switch {
	case v.column.Kind == Bool:
		out := make([]byte, (len(v.plain)+7)/8)
		for i, bit := range v.plain {
			out[i/8] |= bit << (i % 8)
		}
		return out, nil
	case v.column.Delta:
		ints := make([]int64, v.countValues())
		for i := range ints {
			ints[i] = v.Int(i)
		}
		return new(delta.BinaryPackedEncoding).EncodeInt64(nil, ints)
	case v.column.Kind == Text:
		if len(v.ends) == 0 {
			v.ends = append(v.ends, 0)
		}
		return new(delta.LengthByteArrayEncoding).EncodeByteArray(nil, v.texts, v.ends)
	}
	return v.plain, nil
}

// decodeValues appends want decoded values.
func (v *Values) decodeValues(encoding format.Encoding, text []byte, want int) error {
	switch k := v.column.Kind; {
	case k == Bool && encoding == format.Plain:
		if len(text) < (want+7)/8 {
			return io.ErrUnexpectedEOF
		}
		for i := range want {
			v.plain = append(v.plain, text[i/8]>>(i%8)&1)
		}
	case k == Int64 && encoding == format.DeltaBinaryPacked:
		ints, err := new(delta.BinaryPackedEncoding).DecodeInt64(nil, text)
		if err != nil && want > 0 {
			return err
		}
		for _, n := range ints {
			v.appendInt(n)
		}
	case k == Text && encoding == format.DeltaLengthByteArray:
		texts, ends, err := new(delta.LengthByteArrayEncoding).DecodeByteArray(nil, text, nil)
		if err != nil && want > 0 {
			return err
		}
		for i := 1; i < len(ends); i++ {
			v.appendText(texts[ends[i-1]:ends[i]])
		}
	case encoding == format.Plain && k != Text:
		if len(text) != want*v.column.valueWidth() {
			return fmt.Errorf("%d bytes of values, must be %d", len(text), want*v.column.valueWidth())
		}
		v.plain = append(v.plain, text...)
	default:
		return fmt.Errorf("%v encoded as %v, use another encoding", k, encoding)
	}
	return nil
}
