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

// objects reads the multimodal objects of each block.
func (r *reader) objects(e *Event) error {
	if r.null() {
		return nil
	}
	n, err := r.array()
	if err != nil {
		return err
	}
	e.Objects = make([][]Object, n)
	for i := range n {
		if r.null() {
			continue
		}
		n, err := r.pairs()
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		err = r.each(n, func(key []byte) error {
			if string(key) != "mm_objects" {
				return r.skip(maxDepth)
			}
			return r.objectList(&e.Objects[i])
		})
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

func (r *reader) objectList(dst *[]Object) error {
	n, err := r.array()
	if err != nil {
		return err
	}
	list := make([]Object, n)
	for i := range list {
		n, err := r.pairs()
		if err != nil {
			return err
		}
		err = r.each(n, func(key []byte) (err error) {
			switch string(key) {
			case "mm_hash":
				list[i].Hash, err = r.bits()
			case "offsets":
				list[i].Ranges, err = r.ranges()
			default:
				err = r.skip(maxDepth)
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

func (r *reader) ranges() ([][2]int, error) {
	if r.null() {
		return nil, nil
	}
	n, err := r.array()
	if err != nil {
		return nil, err
	}
	list := make([][2]int, n)
	for i := range list {
		p, err := r.pair()
		if err != nil {
			return nil, err
		}
		list[i] = [2]int{int(p[0]), int(p[1])}
	}
	return list, nil
}

// extra reads what else a block's name depends on, and takes from it the hashes
// of multimodal objects, unless those were told in full.
func (r *reader) extra(e *Event) error {
	if r.null() {
		return nil
	}
	n, err := r.array()
	if err != nil {
		return err
	}
	blocks := make([][]Object, n)
	found := false
	for i := range blocks {
		if !r.is(isArray) {
			if err := r.skip(maxDepth); err != nil {
				return err
			}
			continue
		}
		if blocks[i], err = r.extraKeys(); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		found = found || blocks[i] != nil
	}
	if found && e.Objects == nil {
		e.Objects = blocks
	}
	return nil
}

// extraKeys reads the keys of one block: names of objects stand alone or before
// a number.
func (r *reader) extraKeys() ([]Object, error) {
	n, err := r.array()
	if err != nil {
		return nil, err
	}
	var list []Object
	for range n {
		key, err := r.extraKey()
		if err != nil {
			return nil, err
		}
		if h, ok := objectHash(key); ok {
			list = append(list, Object{Hash: h})
		}
	}
	return list, nil
}

// extraKey reads one key, "" if it is no string.
func (r *reader) extraKey() (string, error) {
	if r.is(isString) {
		return r.string()
	}
	if !r.is(isArray) {
		return "", r.skip(maxDepth)
	}
	n, err := r.array()
	if err != nil {
		return "", err
	}
	key := ""
	for i := range n {
		switch {
		case i == 0 && n == 2 && r.is(isString):
			key, err = r.string()
		case i == 1 && !r.is(isInt):
			key = ""
			err = r.skip(maxDepth)
		default:
			err = r.skip(maxDepth)
		}
		if err != nil {
			return "", err
		}
	}
	return key, nil
}

// objectHash is the hash of an object named by 64 hexadecimal digits.
func objectHash(name string) (uint64, bool) {
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
