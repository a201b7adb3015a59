package kvevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// Decode decodes a batch. Events may be maps or arrays. If one event cannot be decoded, Decode returns an error for
// the batch.
func Decode(payload []byte) (Batch, error) {
	r := &reader{rest: payload}
	n, err := r.arrayLen()
	if err != nil {
		return Batch{}, fmt.Errorf("batch: %w", err)
	}
	if n != 3 {
		return Batch{}, fmt.Errorf("batch of %d elements, must be 3", n)
	}
	var b Batch
	if b.Time, err = r.readSeconds(); err != nil {
		return Batch{}, fmt.Errorf("time of the batch: %w", err)
	}
	if n, err = r.arrayLen(); err != nil {
		return Batch{}, fmt.Errorf("events of the batch: %w", err)
	}
	b.Events = make([]Event, 0, min(n, len(r.rest)/leastEvent))
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
	if left := len(r.rest); left > 0 {
		return Batch{}, fmt.Errorf("%d bytes after the batch", left)
	}
	return b, nil
}

// reader decodes untrusted msgpack: allocations are limited by the number of remaining bytes, and nesting by
// maxDepth.
type reader struct {
	rest  []byte        // bytes that are not read yet
	lists arena[uint64] // memory for lists of hashes
}

const maxDepth = 16

// leastEvent is a lower bound for the bytes of a meaningful event.
const leastEvent = 16

// isNext reports whether the next value has one of the types.
func (r *reader) isNext(types ...msgp.Type) bool {
	return slices.Contains(types, msgp.NextType(r.rest))
}

// readNext reads the next value with a function of msgp, if the value has type t. Errors name the expected type want.
func readNext[T any](r *reader, t msgp.Type, want string, read func([]byte) (T, []byte, error)) (v T, err error) {
	if !r.isNext(t) {
		return v, r.wrongCode(want)
	}
	v, rest, err := read(r.rest)
	if err == nil {
		r.rest = rest
	}
	return v, unexpectedEnd(err)
}

// unexpectedEnd returns err, or io.ErrUnexpectedEOF if the bytes have ended.
func unexpectedEnd(err error) error {
	if errors.Is(err, msgp.ErrShortBytes) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// wrongCode returns an error with the found code and the expected type.
func (r *reader) wrongCode(want string) error {
	if len(r.rest) == 0 {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("msgpack code %#02x, must be %s", r.rest[0], want)
}

// skipNil skips a nil, and reports whether the next value was nil.
func (r *reader) skipNil() bool {
	if !msgp.IsNil(r.rest) {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// arrayLen reads the header of an array. The length may not exceed the number of remaining bytes.
func (r *reader) arrayLen() (int, error) {
	n, err := readNext(r, msgp.ArrayType, "an array", msgp.ReadArrayHeaderBytes)
	return r.checkLen(n, err)
}

// mapLen reads the header of a map.
func (r *reader) mapLen() (int, error) {
	n, err := readNext(r, msgp.MapType, "a map", msgp.ReadMapHeaderBytes)
	return r.checkLen(n, err)
}

func (r *reader) checkLen(n uint32, err error) (int, error) {
	if err == nil && int(n) > len(r.rest) {
		return 0, fmt.Errorf("%d elements in %d bytes", n, len(r.rest))
	}
	return int(n), err
}

// readList reads an array. Errors contain what and the number of the element, unless what is "".
func readList[T any](r *reader, what string, read func() (T, error)) ([]T, error) {
	n, err := r.arrayLen()
	if err != nil {
		return nil, err
	}
	list := make([]T, n)
	for i := range list {
		if list[i], err = read(); err != nil && what != "" {
			return nil, fmt.Errorf("%s %d: %w", what, i, err)
		} else if err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (r *reader) readString() (string, error) {
	return readNext(r, msgp.StrType, "a string", msgp.ReadStringBytes)
}

// readOptional reads a string or nil. For nil, readOptional returns "".
func (r *reader) readOptional() (string, error) {
	if r.skipNil() {
		return "", nil
	}
	return r.readString()
}

// maxKey is the maximum length of a key, in bytes.
const maxKey = 256

// readKey reads a key. The result shares memory with the payload.
func (r *reader) readKey() ([]byte, error) {
	key, err := readNext(r, msgp.StrType, "a string", msgp.ReadStringZC)
	if len(key) > maxKey {
		return nil, fmt.Errorf("%d bytes, must be at most %d", len(key), maxKey)
	}
	return key, err
}

// readBits reads a signed or unsigned integer of up to 64 bits, and returns its bits.
func (r *reader) readBits() (uint64, error) {
	if r.isNext(msgp.UintType) {
		return readNext(r, msgp.UintType, "an integer", msgp.ReadUint64Bytes)
	}
	n, err := readNext(r, msgp.IntType, "an integer", msgp.ReadInt64Bytes)
	return uint64(n), err
}

// mostHash is the maximum length of a hash, in bytes.
const mostHash = 64

// readHash reads the hash of a block. The hash is an integer, or bytes with the integer in their last 8 bytes.
func (r *reader) readHash() (uint64, error) {
	if !r.isNext(msgp.BinType) {
		return r.readBits()
	}
	b, err := readNext(r, msgp.BinType, "bytes", msgp.ReadBytesZC)
	if err != nil {
		return 0, err
	}
	if len(b) < 8 || len(b) > mostHash {
		return 0, fmt.Errorf("hash of %d bytes, must be 8 to %d", len(b), mostHash)
	}
	return binary.BigEndian.Uint64(b[len(b)-8:]), nil
}

// readNumber reads an integer from lo to hi.
func (r *reader) readNumber(lo, hi int64) (int64, error) {
	unsigned := r.isNext(msgp.UintType)
	b, err := r.readBits()
	if err != nil {
		return 0, err
	}
	if n := int64(b); n >= lo && n <= hi && !(unsigned && n < 0) {
		return n, nil
	}
	return 0, fmt.Errorf("integer is %d, must be %d to %d", int64(b), lo, hi)
}

func (r *reader) readToken() (uint32, error) {
	t, err := r.readNumber(0, 1<<32-1)
	return uint32(t), err
}

func (r *reader) readSeconds() (float64, error) {
	switch {
	case r.isNext(msgp.Float64Type):
		return readNext(r, msgp.Float64Type, "a number", msgp.ReadFloat64Bytes)
	case r.isNext(msgp.Float32Type):
		return readNext(r, msgp.Float32Type, "a number", msgp.ReadFloat64Bytes)
	case r.isNext(msgp.IntType, msgp.UintType):
		n, err := r.readBits()
		return float64(int64(n)), err
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
		if list[i], err = r.readHash(); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return list, nil
}

// eachPair reads n pairs of a map. eachPair calls f with each key, and f must read the value.
func (r *reader) eachPair(n int, f func(key []byte) error) error {
	for range n {
		key, err := r.readKey()
		if err != nil {
			return fmt.Errorf("key: %w", err)
		}
		if err := f(key); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// skipValue skips a value of any type.
func (r *reader) skipValue(depth int) (err error) {
	if depth == 0 {
		return fmt.Errorf("values nested more than %d deep", maxDepth)
	}
	n := 0
	switch {
	case r.isNext(msgp.ArrayType):
		n, err = r.arrayLen()
	case r.isNext(msgp.MapType):
		n, err = r.mapLen()
		n *= 2
	default:
		r.rest, err = msgp.Skip(r.rest)
		err = unexpectedEnd(err)
	}
	for i := 0; i < n && err == nil; i++ {
		err = r.skipValue(depth - 1)
	}
	return err
}
