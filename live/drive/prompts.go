package drive

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/tokenizer"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

// defaultWords is the number of words without a tokenizer: t0, t1 and so on.
const defaultWords = 2000

// Prompts generates the prompts of a workload. Equal blocks of a trace have equal text at the same position, so that
// a server caches the same blocks as a simulated engine. All other text is unique.
type Prompts struct {
	workload *loadgen.Workload
	block    int
	words    []string // each word is one token, also at the beginning; nil: token ids
	ids      int      // upper limit of token ids
	salt     uint64   // seed of all text
	head     int      // tokens that the server adds before each prompt
	extra    int      // tokens that the server adds before and after each prompt
}

// NewWords returns prompts of words. A different salt gives different prompts. Without the path of a tokenizer.json
// the words are t0 to t1999, and a server may split them into any number of tokens.
func NewWords(w *loadgen.Workload, path string, salt uint64) (*Prompts, error) {
	p := &Prompts{workload: w, block: cmp.Or(w.TraceBlock, 512), salt: salt}
	if path == "" {
		for i := range defaultWords {
			p.words = append(p.words, "t"+strconv.Itoa(i))
		}
		return p, nil
	}
	t, err := tokenizer.Load(path)
	if err != nil {
		return nil, err
	}
	head, tail := t.Around()
	if p.words = t.Words(defaultWords); len(p.words) < 2 {
		return nil, fmt.Errorf("%s: %d words of one token each, must be 2 or more", path, len(p.words))
	}
	p.head, p.extra = head, head+tail
	return p, nil
}

// NewIDs returns prompts of token ids below n. The lengths of the prompts are exact on every server that accepts
// token ids.
func NewIDs(w *loadgen.Workload, n int, salt uint64) *Prompts {
	return &Prompts{workload: w, block: cmp.Or(w.TraceBlock, 512), ids: n, salt: salt}
}

// CheckBlocks rejects a workload with prompts that are shorter than their blocks. The ids of such a workload
// represent fewer tokens than declared, and its prompts would share the wrong prefixes.
func CheckBlocks(w *loadgen.Workload) error {
	block, bad := cmp.Or(w.TraceBlock, 512), 0
	least, most := 1, math.MaxInt // range of tokens per id that fits all turns
	for i := range w.Turns {
		q := &w.Turns[i]
		n, tokens := len(q.IDs), int(q.Input)
		if n < 2 {
			continue
		}
		if (n-1)*block >= tokens {
			bad++
		}
		least, most = max(least, (tokens+n-1)/n), min(most, (tokens-1)/(n-1))
	}
	if bad == 0 {
		return nil
	}
	hint := ""
	if size := 1 << bits.Len(uint(least-1)); size <= most { // the smallest sufficient power of two
		hint = fmt.Sprintf(" (%d fits all)", size)
	}
	return fmt.Errorf("%s: %d of %d requests have more hash ids than blocks of %d tokens in their prompts, must have the tokens of an id by --trace-block-size%s", w.Name, bad, len(w.Turns), block, hint)
}

// turnOf returns the index of the turn of q.
func (p *Prompts) turnOf(q *sim.Request) int32 {
	turn := p.workload.Sessions[q.Session].First
	for range q.Turn {
		turn = p.workload.Turns[turn].Next
	}
	return turn
}

// appendPrompt appends the prompt of a turn as JSON: a string, or a list of ids.
func (p *Prompts) appendPrompt(dst []byte, turn int32) []byte {
	tokens, blocks := int(p.workload.Turns[turn].Input), p.workload.Turns[turn].IDs
	open, end, between := byte('"'), byte('"'), byte(' ')
	if p.words == nil {
		open, end, between = '[', ']', ','
	}
	dst = append(dst, open)
	bare := len(dst)
	last := max(tokens-p.extra+p.head, p.head+1)
	for i := p.head; i < last; i++ {
		if len(dst) > bare {
			dst = append(dst, between)
		}
		k, id := i/p.block, uint64(turn)
		shared := k < len(blocks)
		if shared {
			id = blocks[k]
		}
		n := p.numberOf(id, i%p.block, k, shared)
		if p.words != nil {
			dst = append(dst, p.words[n%uint64(len(p.words))]...)
		} else {
			dst = strconv.AppendUint(dst, n%uint64(p.ids), 10)
		}
	}
	return append(dst, end)
}

// numberOf returns a fixed number for a token of a block. For a block of the trace it depends on the id, for other
// blocks on the turn and the position.
func (p *Prompts) numberOf(id uint64, at, place int, shared bool) uint64 {
	var key [33]byte
	binary.LittleEndian.PutUint64(key[25:], p.salt)
	binary.LittleEndian.PutUint64(key[:], id)
	binary.LittleEndian.PutUint64(key[8:], uint64(at))
	if !shared {
		binary.LittleEndian.PutUint64(key[16:], uint64(place))
		key[24] = 1
	}
	return blockhash.Bytes(key[:])
}
