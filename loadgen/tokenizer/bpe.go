package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe joins characters into tokens, pair by pair.
type bpe struct {
	vocab  map[string]uint32
	merges map[[2]uint32]merge
	unk    uint32 // for characters that are in no token
	hasUnk bool
	fuse   bool // one unk for several such characters in a row
	bytes  bool // such characters become tokens of bytes, if there are any
	whole  bool // a word that is a token is that token, whatever its pairs

	cache   map[string][]uint32 // of short words
	symbols []symbol
	queue   []candidate
}

// merge is what a pair becomes.
type merge struct{ rank, id uint32 }

// symbol is a token so far of a word, in a list of them.
type symbol struct {
	id           uint32
	before, next int32 // -1: none
	gone         bool  // part of the one before
}

// candidate is a pair that can be joined.
type candidate struct {
	merge
	at int32 // its first symbol
}

const (
	maxCached     = 1 << 16 // words
	maxCachedWord = 64      // bytes
)

// append appends the tokens of a word.
func (b *bpe) append(dst []uint32, word string) []uint32 {
	if b.whole {
		if id, ok := b.vocab[word]; ok {
			return append(dst, id)
		}
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

// characters makes a symbol of every character of the word.
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
			continue
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

// addBytes adds a token for each byte of char, if there are such tokens.
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

// join joins pairs, always the one that was learned first, and of several the
// leftmost.
func (b *bpe) join() {
	b.queue = b.queue[:0]
	for i := range b.symbols {
		b.offer(int32(i))
	}
	for len(b.queue) > 0 {
		c := b.pop()
		s := &b.symbols[c.at]
		if s.gone || s.next < 0 {
			continue
		}
		second := &b.symbols[s.next]
		if m, ok := b.merges[[2]uint32{s.id, second.id}]; !ok || m.id != c.id {
			continue // it was another pair when it was offered
		}
		s.id, s.next, second.gone = c.id, second.next, true
		if s.next >= 0 {
			b.symbols[s.next].before = c.at
		}
		if s.before >= 0 {
			b.offer(s.before)
		}
		b.offer(c.at)
	}
}

// offer queues the pair that begins at symbol i, if it can be joined.
func (b *bpe) offer(i int32) {
	s := &b.symbols[i]
	if s.next < 0 {
		return
	}
	if m, ok := b.merges[[2]uint32{s.id, b.symbols[s.next].id}]; ok {
		b.push(candidate{m, i})
	}
}

func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.at < b.at
}

// push adds to the queue, a heap.
func (b *bpe) push(c candidate) {
	q := append(b.queue, c)
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
	b.queue = q
}

// pop takes the first of the queue.
func (b *bpe) pop() candidate {
	q := b.queue
	first, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < len(q) && q[down].before(q[least]) {
				least = down
			}
		}
		if least == i {
			break
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
	b.queue = q
	return first
}
