package optables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/replay-llm/replay/internal/json"
)

// A compact file contains the signature, the length of the header, the header in JSON, and a zstd frame with the
// tables. The numbers of each table are two byte strings, each preceded by its length. A latency is a power of
// 1+step; its exponent is stored as the difference from a prediction by neighboring points. The frame of a GPU may
// use the tables of another GPU as its dictionary, because tables of similar GPUs are similar.
const (
	signature = "replay optables 4\n"
	// Extension is the file name extension of a compact file.
	Extension = ".optables"
	maxHeader = 64 << 10
	maxTables = 16 << 20 // maximum size of the decompressed tables, in bytes
	leastMs   = 1e-5
	maxBases  = 4 // maximum length of a chain of base files
	// dictionary is the dictionary id in a frame that uses a dictionary.
	dictionary = 1
)

// header is the header of a compact file.
type header struct {
	Name     string            `json:"name"`
	Base     string            `json:"base,omitempty"` // the GPU of the dictionary; "": none
	Sheet    Sheet             `json:"sheet"`
	Releases map[string]string `json:"releases"` // releases of the measured engines
	Step     float64           `json:"step"`     // latencies are rounded to steps of this relative size
	Highest  uint16            `json:"highest"`  // the highest code of a latency
}

// errCut reports a file that ends too early or is damaged.
var errCut = errors.New("the file is cut off or damaged")

// Open reads a compact file.
func Open(file []byte) (*Tables, error) {
	t, err := openLazily(file)
	if err != nil {
		return nil, err
	}
	for place := range t.tables {
		if at := t.table(place); at.failed || len(at.codes) > 0 && slices.Max(at.codes) > t.header.Highest {
			return nil, errCut
		}
	}
	return t, nil
}

// openLazily reads a compact file without its tables. Each table is parsed at its first use.
func openLazily(file []byte) (*Tables, error) {
	t := &Tables{}
	text, err := t.header.readText(file, 0)
	if err != nil {
		return nil, err
	}
	if s := t.header.Step; !(s >= 1e-4 && s <= 0.1) {
		return nil, fmt.Errorf("steps of %v, must be from 0.0001 to 0.1", s)
	}
	if err := t.header.Sheet.check(); err != nil {
		return nil, err
	}
	forms, r := listForms(), sections{rest: text}
	for i := range t.tables {
		t.tables[i] = &table{form: &forms[i], text: &numbers{r.section(), r.section()}}
	}
	if r.failed || len(r.rest) > 0 {
		return nil, errCut
	}
	t.latency = listPowers(t.header.Step, int(t.header.Highest)+1)
	return t, nil
}

// readText reads the header of a compact file, and returns the decompressed tables. bases is the number of files that
// refer to this file through their base.
func (h *header) readText(file []byte, bases int) ([]byte, error) {
	rest, ok := bytes.CutPrefix(file, []byte(signature))
	if !ok {
		return nil, errors.New("not a file of operator times")
	}
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > maxHeader || size > uint64(len(rest)-n) {
		return nil, errCut
	}
	if err := json.Unmarshal(rest[n:n+int(size)], h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxTables)}
	if h.Base != "" {
		other, err := files.ReadFile("systems/" + h.Base + Extension)
		if err != nil || bases == maxBases {
			return nil, errCut
		}
		words, err := new(header).readText(other, bases+1)
		if err != nil {
			return nil, err
		}
		options = append(options, zstd.WithDecoderDictRaw(dictionary, words))
	}
	decoder, err := zstd.NewReader(nil, options...)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	text, err := decoder.DecodeAll(rest[n+int(size):], nil)
	if err == nil && len(text) > maxTables {
		err = errCut
	}
	return text, err
}

// check returns an error for an invalid data sheet.
func (s *Sheet) check() error {
	for _, rate := range [...]float64{s.Bandwidth, s.BF16, s.IntraNode, s.InterNode, s.Scale} {
		if !(rate > 0) || math.IsInf(rate, 1) {
			return errors.New("data sheet: bandwidths and rates must be > 0")
		}
	}
	if s.NodeGPUs < 1 {
		return fmt.Errorf("data sheet: gpus_per_node is %d, must be at least 1", s.NodeGPUs)
	}
	return nil
}

// listPowers returns the latencies of the first n codes, in ms.
func listPowers(step float64, n int) []float64 {
	all := make([]float64, n)
	ms := leastMs
	for i := range all {
		all[i] = ms
		ms = float64(ms * (1 + step))
	}
	return all
}

// codeOf returns the code of the latency nearest to ms.
func codeOf(ms, step float64) (uint16, error) {
	n := math.Round(math.Log(ms/leastMs) / math.Log1p(step))
	if !(n >= 0 && n <= math.MaxUint16) {
		return 0, fmt.Errorf("a latency of %v ms cannot be written", ms)
	}
	return uint16(n), nil
}

// sections splits a text into byte strings.
type sections struct {
	rest   []byte
	failed bool
}

func (s *sections) section() []byte {
	size, n := binary.Uvarint(s.rest)
	if n <= 0 || size > uint64(len(s.rest)-n) {
		s.failed, s.rest = true, nil
		return nil
	}
	all := s.rest[n : n+int(size)]
	s.rest = s.rest[n+int(size):]
	return all
}

// numbers is a list of integers of at least 0. The lowest byte of each is stored apart from the higher part, which is
// a varint: this compresses better than one varint per integer.
type numbers struct{ low, high []byte }

func (t *numbers) add(v int) {
	t.low, t.high = append(t.low, byte(v)), binary.AppendUvarint(t.high, uint64(v>>8))
}

// reader reads integers from numbers. After a failure the reader returns zeros.
type reader struct {
	numbers
	failed bool
}

func (r *reader) fail() { r.failed, r.numbers = true, numbers{} }

func (r *reader) number() uint64 {
	if len(r.low) == 0 {
		r.fail()
		return 0
	}
	v, n := uint64(0), 1
	if len(r.high) > 0 && r.high[0] < 0x80 {
		v = uint64(r.high[0])
	} else if v, n = binary.Uvarint(r.high); n <= 0 {
		r.fail()
		return 0
	}
	v = v<<8 | uint64(r.low[0])
	r.low, r.high = r.low[1:], r.high[n:]
	return v
}

// count reads a number of items. The remaining text must have at least one integer per item.
func (r *reader) count() int {
	n := r.number()
	if n > uint64(len(r.low)) {
		r.fail()
		return 0
	}
	return int(n)
}

// word reads a string.
func (r *reader) word() string {
	w := make([]byte, r.count())
	for i := range w {
		w[i] = byte(r.number())
	}
	return string(w)
}

// value reads an integer and adds it to above. The sum must fit in 31 bits.
func (r *reader) value(above int32) int32 {
	n := r.number() + uint64(above)
	if n > math.MaxInt32 {
		r.failed, n = true, 0
	}
	return int32(n)
}

// table reads a table.
func (r *reader) table(t *table) {
	for range r.count() {
		t.words = append(t.words, r.word())
	}
	for range r.count() {
		axis := make([]int32, r.count())
		for i := range axis {
			if i > 0 {
				axis[i] = r.value(axis[i-1])
			} else {
				axis[i] = r.value(0)
			}
			r.failed = r.failed || i > 0 && axis[i] <= axis[i-1]
		}
		r.failed = r.failed || len(axis) == 0
		t.axes = append(t.axes, axis)
	}
	r.keys(t)
	if r.failed {
		return
	}
	t.note()
	r.codes(t)
}

// keys reads the keys of all curves and the indices of their axes.
func (r *reader) keys(t *table) {
	n := r.count()
	t.keys, t.shape, t.start = make([]key, n), make([]int32, n), make([]int32, n+1)
	for c := range t.form.columns {
		for i := range t.keys {
			above := int32(0)
			if i > 0 && sharePrefix(&t.keys[i-1], &t.keys[i], c) {
				above = t.keys[i-1][c]
			}
			t.keys[i][c] = r.value(above)
			r.failed = r.failed || c < t.form.texts && int(t.keys[i][c]) >= len(t.words)
		}
	}
	for i := range t.keys {
		t.shape[i] = r.value(0)
		r.failed = r.failed || int(t.shape[i]) >= len(t.axes)
		r.failed = r.failed || i > 0 && slices.Compare(t.keys[i-1][:], t.keys[i][:]) >= 0
	}
}

// sharePrefix reports whether two keys are equal in the first columns.
func sharePrefix(a, b *key, columns int) bool {
	for c := range columns {
		if a[c] != b[c] {
			return false
		}
	}
	return true
}

// codes reads the latencies of all curves.
func (r *reader) codes(t *table) {
	total := 0
	for i, shape := range t.shape {
		total += len(t.axes[shape])
		t.start[i+1] = int32(min(total, math.MaxInt32))
	}
	if total > len(r.low) {
		r.failed = true
		return
	}
	t.codes = make([]uint16, total)
	for i := range t.keys {
		from, to := int(t.start[i]), int(t.start[i+1])
		for j := from; j < to; j++ {
			v := r.number()
			c := int64(t.likely(i, j-from)) + (int64(v>>1) ^ -int64(v&1))
			if c < 0 || c > math.MaxUint16 {
				r.failed = true
				return
			}
			t.codes[j] = uint16(c)
		}
	}
}

// likely returns the predicted code of a point. The prediction is the median of three guesses from the previous point
// and the previous curve, or only the previous point if there is no such curve.
func (t *table) likely(i, j int) int {
	at := int(t.start[i]) + j
	alike := i > 0 && t.shape[i] == t.shape[i-1]
	switch {
	case alike && j > 0:
		up := at - int(t.start[i]-t.start[i-1])
		left, above, corner := int(t.codes[at-1]), int(t.codes[up]), int(t.codes[up-1])
		return max(min(left, above), min(max(left, above), left+above-corner))
	case j > 0:
		return int(t.codes[at-1])
	case i > 0:
		return int(t.codes[t.start[i-1]])
	}
	return 0
}

// BaseOf returns the base GPU in the compact file of a GPU, or "" if there is none. In Names, the base comes first.
func BaseOf(gpu string) string {
	return map[string]string{"b200": "h200", "b300": "b200", "gb200": "b200", "gb300": "gb200", "h200": "h100", "rtxpro6000": "l40s"}[gpu]
}

// Encode returns the compact file of the tables, with the same bytes each time. base is nil or the tables of the
// dictionary. A program must contain the tables of base to read the file.
func (t *Tables) Encode(base *Tables) ([]byte, error) {
	options := []zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1)}
	if t.header.Base = ""; base != nil {
		t.header.Base = base.header.Name
		options = append(options, zstd.WithEncoderDictRaw(dictionary, base.joinTables()), zstd.WithWindowSize(8<<20))
	}
	head, err := json.Marshal(t.header)
	if err != nil {
		return nil, err
	}
	file := append(binary.AppendUvarint([]byte(signature), uint64(len(head))), head...)
	encoder, err := zstd.NewWriter(nil, options...)
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(t.joinTables(), file), encoder.Close()
}

// joinTables returns the text of all tables before compression.
func (t *Tables) joinTables() (text []byte) {
	for i := range t.tables {
		n := t.table(i).encode()
		for _, section := range [][]byte{n.low, n.high} {
			text = append(binary.AppendUvarint(text, uint64(len(section))), section...)
		}
	}
	return text
}

// encode returns the integers of the table.
func (t *table) encode() *numbers {
	n := &numbers{}
	n.add(len(t.words))
	for _, w := range t.words {
		n.add(len(w))
		for _, c := range []byte(w) {
			n.add(int(c))
		}
	}
	n.add(len(t.axes))
	for _, axis := range t.axes {
		n.add(len(axis))
		before := int32(0)
		for _, x := range axis {
			n.add(int(x - before))
			before = x
		}
	}
	n.add(len(t.keys))
	for c := range t.form.columns {
		for i := range t.keys {
			above := int32(0)
			if i > 0 && sharePrefix(&t.keys[i-1], &t.keys[i], c) {
				above = t.keys[i-1][c]
			}
			n.add(int(t.keys[i][c] - above))
		}
	}
	for _, shape := range t.shape {
		n.add(int(shape))
	}
	for i := range t.keys {
		from, to := int(t.start[i]), int(t.start[i+1])
		for j := from; j < to; j++ {
			d := int(t.codes[j]) - t.likely(i, j-from)
			n.add(d<<1 ^ d>>63)
		}
	}
	return n
}
