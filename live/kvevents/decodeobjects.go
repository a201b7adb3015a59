package kvevents

import (
	"strconv"

	"github.com/tinylib/msgp/msgp"
)

// Object is a multimodal object of a request: its hash, and its token ranges [from, to).
type Object struct {
	Hash   uint64
	Ranges [][2]int
}

// readObjects reads the multimodal objects of each block.
func (r *reader) readObjects() ([][]Object, error) {
	if r.skipNil() {
		return nil, nil
	}
	return readList(r, "block", func() (list []Object, err error) {
		if r.skipNil() {
			return nil, nil
		}
		n, err := r.mapLen()
		if err != nil {
			return nil, err
		}
		err = r.eachPair(n, func(key []byte) (err error) {
			if string(key) != "mm_objects" {
				return r.skipValue(maxDepth)
			}
			list, err = readList(r, "", r.readObject)
			return err
		})
		return list, err
	})
}

func (r *reader) readObject() (o Object, err error) {
	n, err := r.mapLen()
	if err != nil {
		return o, err
	}
	err = r.eachPair(n, func(key []byte) (err error) {
		switch string(key) {
		case "mm_hash":
			o.Hash, err = r.readBits()
		case "offsets":
			if !r.skipNil() {
				o.Ranges, err = readList(r, "", r.readRange)
			}
		default:
			err = r.skipValue(maxDepth)
		}
		return err
	})
	return o, err
}

func (r *reader) readRange() ([2]int, error) {
	p, err := r.readPair()
	return [2]int{int(p[0]), int(p[1])}, err
}

// readExtra reads the extra keys of each block. readExtra uses the hashes of multimodal objects in the keys, unless
// the event has a field with the objects.
func (r *reader) readExtra(e *Event) error {
	if r.skipNil() {
		return nil
	}
	found := false
	blocks, err := readList(r, "block", func() (list []Object, err error) {
		if !r.isNext(msgp.ArrayType) {
			return nil, r.skipValue(maxDepth)
		}
		keys, err := readList(r, "", r.readExtraKey)
		for _, key := range keys {
			if h, ok := parseObjectHash(key); ok {
				list, found = append(list, Object{Hash: h}), true
			}
		}
		return list, err
	})
	if found && e.Objects == nil {
		e.Objects = blocks
	}
	return err
}

// readExtraKey reads one key of a block: a string, or a string and a number. readExtraKey returns "" for other
// values.
func (r *reader) readExtraKey() (key string, err error) {
	if r.isNext(msgp.StrType) {
		return r.readString()
	}
	if !r.isNext(msgp.ArrayType) {
		return "", r.skipValue(maxDepth)
	}
	n, err := r.arrayLen()
	for i := 0; i < n && err == nil; i++ {
		switch {
		case i == 0 && n == 2 && r.isNext(msgp.StrType):
			key, err = r.readString()
			continue
		case i == 1 && !r.isNext(msgp.IntType, msgp.UintType):
			key = ""
		}
		err = r.skipValue(maxDepth)
	}
	return key, err
}

// parseObjectHash returns the hash of an object with a name of 64 hexadecimal digits.
func parseObjectHash(name string) (uint64, bool) {
	if len(name) != 64 {
		return 0, false
	}
	for _, c := range []byte(name) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return 0, false
		}
	}
	h, err := strconv.ParseUint(name[:16], 16, 64)
	return h, err == nil
}
