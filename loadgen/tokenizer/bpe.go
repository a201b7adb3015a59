package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/heap"
)

// bpe is a byte-pair encoding. bpe merges pairs of symbols into tokens.
type bpe struct {
	vocab  map[string]uint32
	merges map[[2]uint32]merge
	unk    uint32 // id for characters that are not in vocab
	hasUnk bool
	fuse   bool // consecutive unknown characters become one unk
	bytes  bool // unknown characters become byte tokens, if vocab has them
	whole  bool // a word in vocab is a token, without merges
	only   bool // all words in vocab are tokens, and other words are unk

	cache   map[string][]uint32 // tokens of short words
	symbols []symbol
	// queue has the pairs with a merge, ordered by rank and index of the first symbol. A value is the id of the
	// merged token.
	queue heap.Heap[uint32, int32, uint32]
}

// merge is the result of merging a pair.
type merge struct{ rank, id uint32 }

// symbol is a token or partial token of a word, in a linked list.
type symbol struct {
	id           uint32
	before, next int32 // -1 if there is none
	gone         bool  // merged into the symbol before
}

const (
	maxCached     = 1 << 16 // words
	maxCachedWord = 64      // bytes
)

// append appends the tokens of a word.
func (b *bpe) append(dst []uint32, word string) []uint32 {
	if b.whole || b.only {
		if id, ok := b.vocab[word]; ok {
			return append(dst, id)
		}
	}
	if b.only {
		if b.hasUnk {
			dst = append(dst, b.unk)
		}
		return dst
	}
	if ids, ok := b.cache[word]; ok {
		return append(dst, ids...)
	}
	from := len(dst)
	b.characters(word)
	b.join()
	for i := int32(0); i >= 0 && int(i) < len(b.symbols); i = b.symbols[i].next {
		dst = append(dst, b.symbols[i].id)
	}
	if len(word) <= maxCachedWord && len(b.cache) < maxCached {
		b.cache[strings.Clone(word)] = append([]uint32(nil), dst[from:]...)
	}
	return dst
}

// characters replaces symbols by the characters of a word.
func (b *bpe) characters(word string) {
	b.symbols = b.symbols[:0]
	unknown := false
	flush := func() {
		if unknown {
			b.add(b.unk)
			unknown = false
		}
	}
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		char := word[i : i+n]
		i += n
		if id, ok := b.vocab[char]; ok {
			flush()
			b.add(id)
			continue
		}
		if b.bytes && b.addBytes(char) {
			continue // a pending unk is added later (TestUnknownWithBytes)
		}
		if b.hasUnk {
			if !b.fuse {
				flush()
			}
			unknown = true
		}
	}
	flush()
}

func (b *bpe) add(id uint32) {
	at := int32(len(b.symbols))
	if at > 0 {
		b.symbols[at-1].next = at
	}
	b.symbols = append(b.symbols, symbol{id: id, before: at - 1, next: -1})
}

// addBytes adds a byte token for each byte of char. addBytes returns false if vocab does not have all byte tokens.
func (b *bpe) addBytes(char string) bool {
	var ids [utf8.UTFMax]uint32
	for i := range len(char) {
		id, ok := b.vocab[fmt.Sprintf("<0x%02X>", char[i])]
		if !ok {
			return false
		}
		ids[i] = id
	}
	for _, id := range ids[:len(char)] {
		b.add(id)
	}
	return true
}

// join merges pairs until none can be merged. The pair with the lowest rank is merged first. Of equal pairs the
// leftmost is first.
func (b *bpe) join() {
	b.queue = b.queue[:0]
	for i := range b.symbols {
		b.offer(int32(i))
	}
	for len(b.queue) > 0 {
		c := b.queue.Pop()
		at, id := c.Tie, c.Value
		s := &b.symbols[at]
		if s.gone || s.next < 0 {
			continue
		}
		second := &b.symbols[s.next]
		if m, ok := b.merges[[2]uint32{s.id, second.id}]; !ok || m.id != id {
			continue // the pair changed since it was queued
		}
		s.id, s.next, second.gone = id, second.next, true
		if s.next >= 0 {
			b.symbols[s.next].before = at
		}
		if s.before >= 0 {
			b.offer(s.before)
		}
		b.offer(at)
	}
}

// offer queues the pair that starts at symbol i, if it has a merge.
func (b *bpe) offer(i int32) {
	s := &b.symbols[i]
	if s.next < 0 {
		return
	}
	if m, ok := b.merges[[2]uint32{s.id, b.symbols[s.next].id}]; ok {
		b.queue.Push(m.rank, i, m.id)
	}
}
