package kvevents

import (
	"fmt"
	"strconv"
)

// Object is a multimodal object of a request: its hash and the token ranges
// [from, to) it stands for.
type Object struct {
	Hash   uint64
	Ranges [][2]int
}

// readObjects reads the multimodal objects of each block.
func (r *reader) readObjects(e *Event) error {
	if r.skipNil() {
		return nil
	}
	n, err := r.arrayLen()
	if err != nil {
		return err
	}
	e.Objects = make([][]Object, n)
	for i := range n {
		if r.skipNil() {
			continue
		}
		n, err := r.mapLen()
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		err = r.eachPair(n, func(key []byte) error {
			if string(key) != "mm_objects" {
				return r.skipValue(maxDepth)
			}
			return r.readObjectList(&e.Objects[i])
		})
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

func (r *reader) readObjectList(dst *[]Object) error {
	n, err := r.arrayLen()
	if err != nil {
		return err
	}
	list := make([]Object, n)
	for i := range list {
		n, err := r.mapLen()
		if err != nil {
			return err
		}
		err = r.eachPair(n, func(key []byte) (err error) {
			switch string(key) {
			case "mm_hash":
				list[i].Hash, err = r.readBits()
			case "offsets":
				list[i].Ranges, err = r.readRanges()
			default:
				err = r.skipValue(maxDepth)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	*dst = list
	return nil
}

func (r *reader) readRanges() ([][2]int, error) {
	if r.skipNil() {
		return nil, nil
	}
	n, err := r.arrayLen()
	if err != nil {
		return nil, err
	}
	list := make([][2]int, n)
	for i := range list {
		p, err := r.readPair()
		if err != nil {
			return nil, err
		}
		list[i] = [2]int{int(p[0]), int(p[1])}
	}
	return list, nil
}

// readExtra reads what else a block's name depends on, and takes from it the hashes
// of multimodal objects, unless those were told in full.
func (r *reader) readExtra(e *Event) error {
	if r.skipNil() {
		return nil
	}
	n, err := r.arrayLen()
	if err != nil {
		return err
	}
	blocks := make([][]Object, n)
	found := false
	for i := range blocks {
		if !r.isNext(isArray) {
			if err := r.skipValue(maxDepth); err != nil {
				return err
			}
			continue
		}
		if blocks[i], err = r.readExtraKeys(); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		found = found || blocks[i] != nil
	}
	if found && e.Objects == nil {
		e.Objects = blocks
	}
	return nil
}

// readExtraKeys reads the keys of one block: names of objects stand alone or before
// a number.
func (r *reader) readExtraKeys() ([]Object, error) {
	n, err := r.arrayLen()
	if err != nil {
		return nil, err
	}
	var list []Object
	for range n {
		key, err := r.readExtraKey()
		if err != nil {
			return nil, err
		}
		if h, ok := parseObjectHash(key); ok {
			list = append(list, Object{Hash: h})
		}
	}
	return list, nil
}

// readExtraKey reads one key, "" if it is no string.
func (r *reader) readExtraKey() (string, error) {
	if r.isNext(isString) {
		return r.readString()
	}
	if !r.isNext(isArray) {
		return "", r.skipValue(maxDepth)
	}
	n, err := r.arrayLen()
	if err != nil {
		return "", err
	}
	key := ""
	for i := range n {
		switch {
		case i == 0 && n == 2 && r.isNext(isString):
			key, err = r.readString()
		case i == 1 && !r.isNext(isInt):
			key = ""
			err = r.skipValue(maxDepth)
		default:
			err = r.skipValue(maxDepth)
		}
		if err != nil {
			return "", err
		}
	}
	return key, nil
}

// parseObjectHash returns the hash of an object named by 64 hexadecimal digits.
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
