package kvevents

import (
	"bytes"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Decode reads a batch. Events come as maps or as arrays; one that cannot be
// read makes the batch unreadable.
func Decode(payload []byte) (Batch, error) {
	r := newReader(payload)
	n, err := r.arrayLen()
	if err != nil {
		return Batch{}, fmt.Errorf("batch: %w", err)
	}
	if n != 3 {
		return Batch{}, fmt.Errorf("batch of %d elements, want 3", n)
	}
	var b Batch
	if b.Time, err = r.readSeconds(); err != nil {
		return Batch{}, fmt.Errorf("time of the batch: %w", err)
	}
	if n, err = r.arrayLen(); err != nil {
		return Batch{}, fmt.Errorf("events of the batch: %w", err)
	}
	b.Events = make([]Event, 0, min(n, r.bytes.Len()/leastEvent))
	for i := range n {
		e, err := r.readEvent()
		if err != nil {
			return Batch{}, fmt.Errorf("event %d: %w", i, err)
		}
		b.Events = append(b.Events, e)
	}
	if b.Rank, b.HasRank, err = r.readRank(); err != nil {
		return Batch{}, fmt.Errorf("rank of the batch: %w", err)
	}
	if left := r.bytes.Len(); left > 0 {
		return Batch{}, fmt.Errorf("%d bytes after the batch", left)
	}
	return b, nil
}

// reader reads msgpack without trusting it: lengths make room for no more than
// the bytes that are there, and nothing nests deeper than maxDepth.
type reader struct {
	payload []byte
	bytes   *bytes.Reader
	d       *msgpack.Decoder
	name    []byte        // memory of key
	lists   arena[uint64] // of hashes
}

const maxDepth = 16

// leastEvent is fewer bytes than an event that tells of anything takes.
const leastEvent = 16

func newReader(payload []byte) *reader {
	b := bytes.NewReader(payload)
	return &reader{payload: payload, bytes: b, d: msgpack.NewDecoder(b)}
}

// nextOffset returns where the next value begins, to return to.
func (r *reader) nextOffset() int64 { return r.bytes.Size() - int64(r.bytes.Len()) }

func (r *reader) seekTo(to int64) error {
	_, err := r.bytes.Seek(to, io.SeekStart)
	return err
}

// wrongCode returns an error with what stands where something else was wanted.
func (r *reader) wrongCode(want string) error {
	if r.bytes.Len() == 0 {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("msgpack code %#02x, want %s", r.payload[r.nextOffset()], want)
}

// isNext reports whether the next value is of a kind, by its code.
func (r *reader) isNext(kind func(byte) bool) bool {
	return r.bytes.Len() > 0 && kind(r.payload[r.nextOffset()])
}

func isNil(c byte) bool { return c == msgpcode.Nil }

func isArray(c byte) bool {
	return msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32
}

func isMap(c byte) bool {
	return msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32
}

func isString(c byte) bool {
	return msgpcode.IsFixedString(c) || c == msgpcode.Str8 || c == msgpcode.Str16 || c == msgpcode.Str32
}

func isInt(c byte) bool {
	return msgpcode.IsFixedNum(c) || c >= msgpcode.Uint8 && c <= msgpcode.Uint64 || c >= msgpcode.Int8 && c <= msgpcode.Int64
}

func isFloat(c byte) bool { return c == msgpcode.Float || c == msgpcode.Double }

// skipNil takes a nil if there is one.
func (r *reader) skipNil() bool {
	return r.isNext(isNil) && r.d.DecodeNil() == nil
}

// arrayLen begins an array, of at most as many elements as bytes are left.
func (r *reader) arrayLen() (int, error) {
	if !r.isNext(isArray) {
		return 0, r.wrongCode("an array")
	}
	n, err := r.d.DecodeArrayLen()
	return n, r.checkLen(n, err)
}

// mapLen begins a map.
func (r *reader) mapLen() (int, error) {
	if !r.isNext(isMap) {
		return 0, r.wrongCode("a map")
	}
	n, err := r.d.DecodeMapLen()
	return n, r.checkLen(n, err)
}

func (r *reader) checkLen(n int, err error) error {
	if err == nil && n > r.bytes.Len() {
		return fmt.Errorf("%d elements in %d bytes", n, r.bytes.Len())
	}
	return err
}

func (r *reader) readString() (string, error) {
	if !r.isNext(isString) {
		return "", r.wrongCode("a string")
	}
	return r.d.DecodeString()
}

// readOptional reads a string, or "" for nil.
func (r *reader) readOptional() (string, error) {
	if r.skipNil() {
		return "", nil
	}
	return r.readString()
}

// readBits reads an integer of up to 64 bits, signed or not, as its bits.
func (r *reader) readBits() (uint64, error) {
	if !r.isNext(isInt) {
		return 0, r.wrongCode("an integer")
	}
	if r.isNext(func(c byte) bool { return c == msgpcode.Uint64 }) {
		return r.d.DecodeUint64()
	}
	n, err := r.d.DecodeInt64()
	return uint64(n), err
}

// readNumber reads an integer from lo to hi.
func (r *reader) readNumber(lo, hi int64) (int64, error) {
	unsigned := r.isNext(func(c byte) bool { return c == msgpcode.Uint64 })
	b, err := r.readBits()
	if err != nil {
		return 0, err
	}
	if n := int64(b); n >= lo && n <= hi && !(unsigned && n < 0) {
		return n, nil
	}
	return 0, fmt.Errorf("integer is %d, want %d to %d", int64(b), lo, hi)
}

func (r *reader) readSeconds() (float64, error) {
	switch {
	case r.isNext(isFloat):
		return r.d.DecodeFloat64()
	case r.isNext(isInt):
		n, err := r.d.DecodeInt64()
		return float64(n), err
	}
	return 0, r.wrongCode("a number")
}

func (r *reader) readRank() (int32, bool, error) {
	if r.skipNil() {
		return 0, false, nil
	}
	n, err := r.readNumber(-1<<31, 1<<31-1)
	return int32(n), true, err
}

// readHashes reads a list of hashes.
func (r *reader) readHashes() ([]uint64, error) {
	n, err := r.arrayLen()
	if err != nil {
		return nil, err
	}
	list := r.lists.allocList(n)
	for i := range list {
		if list[i], err = r.readBits(); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return list, nil
}

// skipValue passes over a value.
func (r *reader) skipValue(depth int) error {
	if depth == 0 {
		return fmt.Errorf("values nested more than %d deep", maxDepth)
	}
	var n int
	var err error
	switch {
	case r.isNext(isArray):
		n, err = r.arrayLen()
	case r.isNext(isMap):
		n, err = r.mapLen()
		n *= 2
	default:
		return r.d.Skip()
	}
	for i := 0; i < n && err == nil; i++ {
		err = r.skipValue(depth - 1)
	}
	return err
}
