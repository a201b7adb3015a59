package kvevents

import (
	"errors"
	"fmt"
	"slices"
)

// event reads an event, a map or an array.
func (r *reader) event() (Event, error) {
	if r.is(isMap) {
		return r.mapEvent()
	}
	n, err := r.array()
	if err != nil {
		return Event{}, r.wrong("a map or an array")
	}
	if n == 0 {
		return Event{}, errors.New("event without a type")
	}
	var e Event
	if e.Kind, err = r.kind(); err != nil {
		return Event{}, err
	}
	for at := 1; at < n; at++ {
		if err := r.element(&e, at); err != nil {
			return Event{}, fmt.Errorf("%v, element %d: %w", e.Kind, at, err)
		}
	}
	return e, e.complete(n)
}

func (r *reader) kind() (Kind, error) {
	name, err := r.key()
	if err != nil {
		return 0, fmt.Errorf("type: %w", err)
	}
	for k := Stored; k <= Ignored; k++ {
		if k.String() == string(name) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("type is %q, want BlockStored, BlockRemoved, AllBlocksCleared or Ignored", name)
}

// mapEvent reads a map, of which the type may come last.
func (r *reader) mapEvent() (Event, error) {
	n, err := r.pairs()
	if err != nil {
		return Event{}, err
	}
	var e Event
	if e.Kind, err = r.typeAmong(n); err != nil {
		return Event{}, err
	}
	seen := 0
	err = r.each(n, func(key []byte) error {
		at := position(e.Kind, key)
		if at == 0 {
			return r.skip(maxDepth)
		}
		seen |= 1 << at
		return r.field(&e, at)
	})
	if err != nil {
		return Event{}, fmt.Errorf("%v: %w", e.Kind, err)
	}
	return e, e.present(seen)
}

// typeAmong looks ahead for the type among n pairs of a map. It comes first as a
// rule.
func (r *reader) typeAmong(n int) (kind Kind, err error) {
	begin := r.place()
	typed := false
	for i := 0; i < n && !typed; i++ {
		err = r.each(1, func(key []byte) (err error) {
			if typed = string(key) == "type"; !typed {
				return r.skip(maxDepth)
			}
			kind, err = r.kind()
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	if !typed {
		return 0, errors.New("event without a type")
	}
	return kind, r.back(begin)
}

// each calls f for the keys of n pairs of a map; f reads the value.
func (r *reader) each(n int, f func(key []byte) error) error {
	for range n {
		key, err := r.key()
		if err != nil {
			return fmt.Errorf("key: %w", err)
		}
		var name [maxKey]byte // keys within the value take the place of this one
		size := copy(name[:], key)
		if err := f(key); err != nil {
			return fmt.Errorf("%s: %w", string(name[:size]), err)
		}
	}
	return nil
}

// maxKey bounds the length of a key.
const maxKey = 256

// key reads a key, which stays where it is until the next one is read.
func (r *reader) key() ([]byte, error) {
	if !r.is(isString) {
		return nil, r.wrong("a string")
	}
	n, err := r.d.DecodeBytesLen()
	if err != nil {
		return nil, err
	}
	if n > maxKey {
		return nil, fmt.Errorf("%d bytes, want at most %d", n, maxKey)
	}
	r.name = slices.Grow(r.name[:0], n)[:n]
	return r.name, r.d.ReadFull(r.name)
}

// Fields of events; the first ones are at these places in arrays.
const (
	fieldBlocks = 1 + iota
	fieldParent
	fieldTokens
	fieldSize
	fieldAdapter // a number nobody uses any more
	fieldMedium
	fieldLoRA
	fieldExtra
	fieldGroup
	fieldKind
	fieldWindow
	fieldObjects
	fieldHashes // of tokens; in maps only
)

// position is the field of a map's key, 0 for keys nobody knows.
func position(k Kind, key []byte) int {
	if k > Removed {
		return 0
	}
	switch string(key) {
	case "block_hashes":
		return fieldBlocks
	case "medium":
		return fieldMedium
	case "group_idx":
		return fieldGroup
	case "kv_cache_spec_kind":
		return fieldKind
	case "kv_cache_spec_sliding_window":
		return fieldWindow
	}
	if k == Removed {
		return 0
	}
	switch string(key) {
	case "parent_block_hash":
		return fieldParent
	case "token_ids":
		return fieldTokens
	case "block_size":
		return fieldSize
	case "lora_name":
		return fieldLoRA
	case "extra_keys":
		return fieldExtra
	case "block_mm_infos":
		return fieldObjects
	case "tokens_hashes":
		return fieldHashes
	}
	return 0
}

// element reads the element of an array at a place from 1.
func (r *reader) element(e *Event, at int) error {
	switch {
	case e.Kind > Removed:
		return r.skip(maxDepth)
	case e.Kind == Removed && at == 2:
		return r.field(e, fieldMedium)
	case e.Kind == Removed && at > 2 && at <= 5, e.Kind == Stored && at > fieldExtra && at <= fieldObjects:
		return r.byType(e)
	case at > fieldExtra:
		return r.skip(maxDepth)
	}
	return r.field(e, at)
}

// byType reads one of the last elements, which are told apart by their type.
func (r *reader) byType(e *Event) error {
	switch {
	case r.is(isString):
		return r.field(e, fieldKind)
	case r.is(isInt) && !e.HasGroup:
		return r.field(e, fieldGroup)
	case r.is(isInt):
		return r.field(e, fieldWindow)
	case r.is(isArray) && e.Kind == Stored:
		return r.field(e, fieldObjects)
	}
	return r.skip(maxDepth)
}

// field reads the value of a field.
func (r *reader) field(e *Event, at int) (err error) {
	switch at {
	case fieldBlocks:
		e.Blocks, err = r.hashes()
	case fieldParent:
		e.Parent = 0
		if e.HasParent = !r.null(); e.HasParent {
			e.Parent, err = r.bits()
		}
	case fieldTokens:
		e.Tokens, e.Eagle, err = r.tokens()
	case fieldSize:
		var n int64
		n, err = r.number(0, 1<<31-1)
		e.BlockTokens = int(n)
	case fieldAdapter:
		err = r.skip(maxDepth)
	case fieldMedium:
		e.Medium, err = r.optional()
	case fieldLoRA:
		e.LoRA, err = r.optional()
	case fieldExtra:
		err = r.extra(e)
	case fieldGroup:
		if e.HasGroup = !r.null(); e.HasGroup {
			e.Group, err = r.number(-1<<63, 1<<63-1)
		}
	case fieldWindow:
		if e.HasWindow = !r.null(); e.HasWindow {
			e.Window, err = r.number(-1<<63, 1<<63-1)
		}
	case fieldKind:
		e.CacheKind, err = r.optional()
	case fieldObjects:
		err = r.objects(e)
	case fieldHashes:
		e.TokensHashes, err = r.hashes()
	}
	return err
}

// complete checks an array of n elements for what an event cannot be without.
func (e *Event) complete(n int) error {
	switch {
	case e.Kind == Stored && n <= fieldSize:
		return fmt.Errorf("BlockStored of %d elements, want at least %d", n, fieldSize+1)
	case e.Kind == Removed && n <= fieldBlocks:
		return errors.New("BlockRemoved without block_hashes")
	}
	return nil
}

// present checks a map with the given fields for the same.
func (e *Event) present(seen int) error {
	has := func(at int) bool { return seen&(1<<at) != 0 }
	switch {
	case e.Kind > Removed:
		return nil
	case !has(fieldBlocks):
		return fmt.Errorf("%v without block_hashes", e.Kind)
	case e.Kind == Removed:
		return nil
	case !has(fieldTokens) && !has(fieldHashes):
		return errors.New("BlockStored without tokens_hashes or token_ids")
	case !has(fieldSize):
		return errors.New("BlockStored without block_size")
	case has(fieldHashes) && len(e.TokensHashes) != len(e.Blocks):
		return fmt.Errorf("BlockStored with %d tokens_hashes, want one for each of %d blocks", len(e.TokensHashes), len(e.Blocks))
	}
	return nil
}

// tokens reads tokens, or pairs of a token and the one after it.
func (r *reader) tokens() ([]uint32, bool, error) {
	n, err := r.array()
	if err != nil {
		return nil, false, err
	}
	list := make([]uint32, 0, n)
	if n == 0 || !r.is(isArray) {
		for i := range n {
			t, err := r.number(0, 1<<32-1)
			if err != nil {
				return nil, false, fmt.Errorf("element %d: %w", i, err)
			}
			list = append(list, uint32(t))
		}
		return list, false, nil
	}
	var last uint32
	for i := range n {
		pair, err := r.pair()
		if err != nil {
			return nil, false, fmt.Errorf("element %d: %w", i, err)
		}
		list = append(list, pair[0])
		last = pair[1]
	}
	return append(list, last), true, nil
}

func (r *reader) pair() (p [2]uint32, err error) {
	n, err := r.array()
	if err != nil {
		return p, err
	}
	if n != 2 {
		return p, fmt.Errorf("array of %d elements, want a pair", n)
	}
	for i := range p {
		t, err := r.number(0, 1<<32-1)
		if err != nil {
			return p, err
		}
		p[i] = uint32(t)
	}
	return p, nil
}
