package record

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"os"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/loadgen/tokenizer"
)

// minKey is the minimum number of bytes of a key.
const minKey = 32

// ReadKey reads a key from a file. If the path is "", ReadKey returns a random key.
func ReadKey(path string) ([]byte, error) {
	if path == "" {
		key := make([]byte, minKey)
		rand.Read(key)
		return key, nil
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) < minKey {
		err = fmt.Errorf("%s: %d bytes, must be a key of at least %d", path, len(key), minKey)
	}
	return key, err
}

// WarnOfKey returns a warning if other users may read the key file, else "". With the key, other users could test
// which prompts were sent.
func WarnOfKey(path string) string {
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return fmt.Sprintf("%s: other users can read this key (mode %04o) and test with it which prompts were sent, must have mode 0600", path, st.Mode().Perm())
}

// prompt is the hashed prompt of a request, without its text.
type prompt struct {
	tokens int // 0 means unknown
	blocks []uint64
}

// job is a body to hash.
type job struct {
	body []byte
	chat bool
	done chan<- prompt
}

// hashers are goroutines that hash the blocks of prompts. hashers keep no part of a body.
type hashers struct {
	jobs   chan job
	ending chan struct{}
	held   atomic.Int64 // bytes of bodies that wait for a hasher or are still being read
	all    sync.WaitGroup
}

const (
	maxBody = 16 << 20  // maximum bytes of a hashed body; longer bodies are forwarded, and their prompts are unique
	maxHeld = 256 << 20 // maximum bytes of all kept bodies
)

// newHashers starts the goroutines.
func newHashers(o *Options, workers int) (*hashers, error) {
	h := &hashers{jobs: make(chan job, 4096), ending: make(chan struct{})}
	for range workers {
		b := &blockHasher{block: o.BlockTokens, bytesPerToken: o.BytesPerToken, mac: hmac.New(sha256.New, o.Key)}
		if o.Tokenizer != "" {
			var err error
			if b.tokens, err = tokenizer.Load(o.Tokenizer); err != nil {
				h.close()
				return nil, err
			}
		}
		h.all.Go(func() {
			for {
				select {
				case j := <-h.jobs:
					j.done <- b.hashBody(j.body, j.chat)
					h.held.Add(-int64(cap(j.body)))
				case <-h.ending:
					return
				}
			}
		})
	}
	return h, nil
}

func (h *hashers) close() {
	close(h.ending)
	h.all.Wait()
}

// blockHasher hashes the blocks of prompts.
type blockHasher struct {
	block         int
	bytesPerToken float64
	tokens        *tokenizer.Tokenizer // nil: no tokenizer
	ids           []uint32
	mac           hash.Hash
	sum, content  []byte
}

// asked contains the keys of a body that make up the prompt.
type asked struct {
	Prompt   json.RawMessage   `json:"prompt"`
	Tools    json.RawMessage   `json:"tools"`
	Messages []json.RawMessage `json:"messages"`
}

// hashBody returns the hashed prompt of a body. The prompt is unknown if the body cannot be parsed or has several
// prompts.
func (b *blockHasher) hashBody(body []byte, chat bool) prompt {
	var q asked
	if json.Unmarshal(body, &q) != nil {
		return prompt{}
	}
	if !chat {
		var ids []uint32
		if json.Unmarshal(q.Prompt, &ids) == nil && ids != nil {
			return b.hashIDs(ids)
		}
		var text string
		if json.Unmarshal(q.Prompt, &text) != nil {
			return prompt{}
		}
		return b.hashText(text)
	}
	text := string(q.Tools)
	for _, m := range q.Messages {
		text += string(m)
	}
	return b.hashText(text)
}

// hashText hashes the tokens of a text. Without a tokenizer hashText hashes runs of bytes.
func (b *blockHasher) hashText(text string) prompt {
	if b.tokens != nil {
		b.ids = b.tokens.Append(b.ids[:0], text)
		return b.hashIDs(b.ids)
	}
	p := prompt{tokens: int(float64(len(text))/b.bytesPerToken + 0.999999)}
	var chain [16]byte
	place := func(token int) int { return min(len(text), int(float64(token)*b.bytesPerToken)) }
	for at := 0; at < p.tokens; at += b.block {
		b.content = append(b.content[:0], text[place(at):place(at+b.block)]...)
		p.blocks = append(p.blocks, b.linkBlock(&chain))
	}
	return p
}

func (b *blockHasher) hashIDs(ids []uint32) prompt {
	p := prompt{tokens: len(ids)}
	var chain [16]byte
	for at := 0; at < len(ids); at += b.block {
		b.content = b.content[:0]
		for _, id := range ids[at:min(at+b.block, len(ids))] {
			b.content = binary.LittleEndian.AppendUint32(b.content, id)
		}
		p.blocks = append(p.blocks, b.linkBlock(&chain))
	}
	return p
}

// linkBlock returns the id of the block with the current content, and adds the block to chain. The content cannot be
// guessed from the id without the key.
func (b *blockHasher) linkBlock(chain *[16]byte) uint64 {
	b.mac.Reset()
	b.mac.Write(chain[:])
	b.mac.Write(b.content)
	b.sum = b.mac.Sum(b.sum[:0])
	copy(chain[:], b.sum)
	return binary.LittleEndian.Uint64(b.sum) >> 11 // at most 53 bits, exact in every JSON parser
}
