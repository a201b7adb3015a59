package kvevents

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tinylib/msgp/msgp"

	"github.com/replay-llm/replay/internal/excerpt"
)

// readEvent reads an event, which is a map or an array.
func (r *reader) readEvent() (Event, error) {
	if r.isNext(msgp.MapType) {
		return r.readMapEvent()
	}
	n, err := r.arrayLen()
	if err != nil {
		return Event{}, r.wrongCode("a map or an array")
	}
	if n == 0 {
		return Event{}, errors.New("event without a type")
	}
	var e Event
	if e.Kind, err = r.readKind(); err != nil {
		return Event{}, err
	}
	for at := 1; at < n; at++ {
		if err := r.readElement(&e, at); err != nil {
			return Event{}, fmt.Errorf("%v, element %d: %w", e.Kind, at, err)
		}
	}
	return e, e.checkArray(n)
}

func (r *reader) readKind() (Kind, error) {
	name, err := r.readKey()
	if err != nil {
		return 0, fmt.Errorf("type: %w", err)
	}
	for k := Stored; k <= Ignored; k++ {
		if k.String() == string(name) {
			return k, nil
		}
	}
	return 0, excerpt.Errorf("type is %q, must be BlockStored, BlockRemoved, AllBlocksCleared or Ignored", name)
}

// readMapEvent reads an event that is a map. The type of the event may be its last key.
func (r *reader) readMapEvent() (Event, error) {
	n, err := r.mapLen()
	if err != nil {
		return Event{}, err
	}
	var e Event
	if e.Kind, err = r.findType(n); err != nil {
		return Event{}, err
	}
	seen := 0
	err = r.eachPair(n, func(key []byte) error {
		at := fieldOf(e.Kind, key)
		if at == 0 {
			return r.skipValue(maxDepth)
		}
		seen |= 1 << at
		return r.readField(&e, at)
	})
	if err != nil {
		return Event{}, fmt.Errorf("%v: %w", e.Kind, err)
	}
	return e, e.checkMap(seen)
}

// findType searches n pairs of a map for the type, without consuming them. Usually the type is first.
func (r *reader) findType(n int) (kind Kind, err error) {
	begin, typed := r.rest, false
	for i := 0; i < n && !typed; i++ {
		err = r.eachPair(1, func(key []byte) (err error) {
			if typed = string(key) == "type"; !typed {
				return r.skipValue(maxDepth)
			}
			kind, err = r.readKind()
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	if !typed {
		return 0, errors.New("event without a type")
	}
	r.rest = begin
	return kind, nil
}

// Fields of events. In arrays, the first fields have these indexes.
const (
	fieldBlocks = 1 + iota
	fieldParent
	fieldTokens
	fieldSize
	fieldAdapter // a number that is no longer used
	fieldMedium
	fieldLoRA
	fieldExtra
	fieldGroup
	fieldKind
	fieldWindow
	fieldObjects
	fieldHashes // hashes of tokens; in maps only
)

// ofRemoved is the set of the fields of a BlockRemoved, as bits.
const ofRemoved = 1<<fieldBlocks | 1<<fieldMedium | 1<<fieldGroup | 1<<fieldKind | 1<<fieldWindow

// fieldOf returns the field of a map's key, 0 for unknown keys.
func fieldOf(k Kind, key []byte) int {
	names := [...]string{
		fieldBlocks: "block_hashes", fieldParent: "parent_block_hash", fieldTokens: "token_ids", fieldSize: "block_size",
		fieldMedium: "medium", fieldLoRA: "lora_name", fieldExtra: "extra_keys", fieldGroup: "group_idx",
		fieldKind: "kv_cache_spec_kind", fieldWindow: "kv_cache_spec_sliding_window", fieldObjects: "block_mm_infos",
		fieldHashes: "tokens_hashes",
	}
	at := slices.Index(names[:], string(key))
	if k == Ignored {
		switch string(key) {
		case updatedKey:
			return fieldBlocks
		case mediumKey(Ignored):
			return fieldMedium
		}
	}
	if at < 0 || k > Removed || k == Removed && ofRemoved&(1<<at) == 0 {
		return 0
	}
	return at
}

// readElement reads element at of an array. The type is element 0.
func (r *reader) readElement(e *Event, at int) error {
	switch {
	case e.Kind > Removed:
		return r.skipValue(maxDepth)
	case e.Kind == Removed && at == 2:
		return r.readField(e, fieldMedium)
	case e.Kind == Removed && at > 2 && at <= 5, e.Kind == Stored && at > fieldExtra && at <= fieldObjects:
		return r.readByType(e)
	case at > fieldExtra:
		return r.skipValue(maxDepth)
	}
	return r.readField(e, at)
}

// readByType reads an optional last element of an array. The type of the value determines the field.
func (r *reader) readByType(e *Event) error {
	switch {
	case r.isNext(msgp.StrType):
		return r.readField(e, fieldKind)
	case r.isNext(msgp.IntType, msgp.UintType) && !e.HasGroup:
		return r.readField(e, fieldGroup)
	case r.isNext(msgp.IntType, msgp.UintType):
		return r.readField(e, fieldWindow)
	case r.isNext(msgp.ArrayType) && e.Kind == Stored:
		return r.readField(e, fieldObjects)
	}
	return r.skipValue(maxDepth)
}

// readField reads the value of a field.
func (r *reader) readField(e *Event, at int) (err error) {
	switch at {
	case fieldBlocks:
		e.Blocks, err = r.readHashes()
	case fieldParent:
		e.Parent = 0
		if e.HasParent = !r.skipNil(); e.HasParent {
			e.Parent, err = r.readHash()
		}
	case fieldTokens:
		err = r.readTokens(e)
	case fieldSize:
		var n int64
		n, err = r.readNumber(0, 1<<31-1)
		e.BlockTokens = int(n)
	case fieldAdapter:
		err = r.skipValue(maxDepth)
	case fieldMedium:
		e.Medium, err = r.readOptional()
	case fieldLoRA:
		e.LoRA, err = r.readOptional()
	case fieldExtra:
		err = r.readExtra(e)
	case fieldGroup:
		if e.HasGroup = !r.skipNil(); e.HasGroup {
			e.Group, err = r.readNumber(-1<<63, 1<<63-1)
		}
	case fieldWindow:
		if e.HasWindow = !r.skipNil(); e.HasWindow {
			e.Window, err = r.readNumber(-1<<63, 1<<63-1)
		}
	case fieldKind:
		e.CacheKind, err = r.readOptional()
	case fieldObjects:
		e.Objects, err = r.readObjects()
	case fieldHashes:
		e.TokensHashes, err = r.readHashes()
	}
	return err
}

// checkArray returns an error if an array of n elements lacks a required field.
func (e *Event) checkArray(n int) error {
	switch {
	case e.Kind == Stored && n <= fieldSize:
		return fmt.Errorf("BlockStored of %d elements, must be at least %d", n, fieldSize+1)
	case e.Kind == Removed && n <= fieldBlocks:
		return errors.New("BlockRemoved without block_hashes")
	}
	return nil
}

// checkMap returns an error if a map with the fields seen lacks a required field.
func (e *Event) checkMap(seen int) error {
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
		return fmt.Errorf("BlockStored with %d tokens_hashes, expected one for each of %d blocks", len(e.TokensHashes), len(e.Blocks))
	}
	return nil
}

// readTokens reads tokens, or pairs of a token and the next token, depending on the first element.
func (r *reader) readTokens(e *Event) (err error) {
	first, pairs, last := true, false, uint32(0)
	e.Tokens, err = readList(r, "element", func() (uint32, error) {
		if first {
			first, pairs = false, r.isNext(msgp.ArrayType)
		}
		if !pairs {
			return r.readToken()
		}
		pair, err := r.readPair()
		last = pair[1]
		return pair[0], err
	})
	if e.Eagle = pairs; pairs {
		e.Tokens = append(e.Tokens, last)
	}
	return err
}

func (r *reader) readPair() (p [2]uint32, err error) {
	n, err := r.arrayLen()
	if err != nil {
		return p, err
	}
	if n != 2 {
		return p, fmt.Errorf("array of %d elements, must be a pair", n)
	}
	if p[0], err = r.readToken(); err == nil {
		p[1], err = r.readToken()
	}
	return p, err
}
