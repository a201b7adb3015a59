package formats

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"

	"github.com/replay-llm/replay/loadgen/tokenizer"
)

// texts makes lengths and ids of prompts that are given as text. Without a
// tokenizer the length is estimated, and blocks are runs of bytes.
type texts struct {
	s      *Stream
	tokens *tokenizer.Tokenizer // nil: none
	ids    []uint32             // tokens of the text at hand
	mac    hash.Hash
	sum    []byte
	all    []byte // the prompt at hand
}

const textDomain = "replay text blocks"

func (s *Stream) newTexts() (*texts, error) {
	key := s.o.Key
	if key == nil {
		key = []byte(textDomain)
	}
	t := &texts{s: s, mac: hmac.New(sha256.New, key)}
	if path := s.o.Tokenizer; path != "" {
		var err error
		t.tokens, err = tokenizer.Load(path)
		return t, err
	}
	s.Approximate = true
	return t, nil
}

// fillPrompt gives r length and ids of the prompt text.
func (t *texts) fillPrompt(r *Record, text []byte) error {
	if t.tokens != nil {
		return t.fillExactly(r, text)
	}
	rate := t.s.o.TokensPerByte
	if rate == 0 {
		return fmt.Errorf("prompt has text, no token count; want --tokenizer or --tokens-per-byte")
	}
	tokens := math.Ceil(float64(len(text)) * rate)
	if tokens > maxTokens {
		return fmt.Errorf("prompt has %d bytes, want at most %d tokens", len(text), maxTokens)
	}
	t.fillBlocks(r, int(tokens), func(from, to int) (units int, content []byte) {
		start, end := byteOf(from, rate, len(text)), byteOf(to, rate, len(text))
		return end - start, text[start:end]
	})
	return nil
}

// fillExactly gives r length and ids of the tokens of text.
func (t *texts) fillExactly(r *Record, text []byte) error {
	t.ids = t.tokens.Append(t.ids[:0], string(text))
	if len(t.ids) > maxTokens {
		return fmt.Errorf("prompt has %d tokens, want at most %d", len(t.ids), maxTokens)
	}
	t.fillTokens(r, t.ids)
	return nil
}

// fillTokens gives r length and blocks of token ids.
func (t *texts) fillTokens(r *Record, ids []uint32) {
	var content []byte
	t.fillBlocks(r, len(ids), func(from, to int) (int, []byte) {
		content = content[:0]
		for _, id := range ids[from:to] {
			content = binary.LittleEndian.AppendUint32(content, id)
		}
		return to - from, content
	})
}

// fillBlocks gives r its length and an id for each block, of which content gives what
// it holds and how many units that is.
func (t *texts) fillBlocks(r *Record, tokens int, content func(from, to int) (units int, content []byte)) {
	r.Input = tokens
	block, chain := cmp.Or(t.s.o.TraceBlock, defaultBlock), [16]byte{}
	for i := range tokens / block {
		units, held := content(i*block, (i+1)*block)
		r.IDs = append(r.IDs, t.linkBlock(&chain, units, held))
	}
}

// linkBlock is the id of a block of so many units after the blocks of chain, to which
// it adds the block.
func (t *texts) linkBlock(chain *[16]byte, units int, content []byte) uint64 {
	t.mac.Reset()
	t.mac.Write([]byte(textDomain))
	t.mac.Write(chain[:])
	t.mac.Write(binary.LittleEndian.AppendUint32(nil, uint32(units)))
	t.mac.Write(content)
	t.sum = t.mac.Sum(t.sum[:0])
	copy(chain[:], t.sum)
	return binary.LittleEndian.Uint64(t.sum)
}

// byteOf is where a token starts.
func byteOf(token int, rate float64, most int) int {
	return min(int(float64(token)/rate), most)
}

// collectPrompt collects what is text in an OpenAI body, a list of messages, a list of
// strings or a string.
func (t *texts) collectPrompt(values ...[]byte) []byte {
	t.all = t.all[:0]
	for _, v := range values {
		t.collect(v, 0)
	}
	return t.all
}

func (t *texts) collect(v []byte, depth int) {
	switch {
	case len(v) == 0 || depth > maxDepth:
	case v[0] == '"':
		t.all = append(t.all, unquoteString(v)...)
	case v[0] == '[':
		parts, _ := splitList(v, nil)
		for _, p := range parts {
			t.collect(p, depth+1)
		}
	case v[0] == '{':
		var o object
		o.reparseText(v)
		for _, key := range []string{"tools", "system", "messages", "role", "content", "text", "prompt", "input"} {
			if key == "content" && o.has("role") {
				t.all = append(t.all, '\n')
			}
			t.collect(o.find(key), depth+1)
		}
	}
}

// outputOf reads the answer length that a request asks for.
func (f *fields) outputOf(s *Stream, r *Record, keys ...string) {
	for _, key := range keys {
		if n, ok := f.readCount(key); ok {
			r.Output = n
			return
		}
	}
	if r.Output = s.o.OutputTokens; r.Output == 0 {
		f.missing(keys[0], "it or --output-len")
	}
}

// textRows reads prompts that are given as text, one or several per line.
type textRows struct {
	lineRows
	t     *texts
	turns map[string]int // turns so far of a session
}

func openText(s *Stream) (rows, error) {
	s.Chained = s.o.Sessions != "flat"
	if s.Format == "vllm-custom" || s.o.Rate > 0 {
		s.paceArrivals()
	}
	t, err := s.newTexts()
	p := &textRows{t: t, turns: make(map[string]int)}
	p.s, p.read = s, p.readRow
	return p, err
}

func (p *textRows) readRow(f *fields) error {
	session := f.readName("session_id")
	if mode := f.readText("message_mode"); mode != nil && string(mode) != "history" {
		f.complain("message_mode is %q, want history", mode)
	}
	if !f.has("turns") {
		return p.readTurn(f, session)
	}
	if session == nil {
		session = fmt.Appendf(nil, "line_%d", f.line)
	}
	for _, turn := range f.elements("turns") {
		if err := p.readTurn(turn, session); err != nil {
			return err
		}
	}
	return nil
}

// readTurn reads one request.
func (p *textRows) readTurn(f *fields, session []byte) error {
	r := p.add(f.line)
	at, timed := f.readStamp("timestamp", 6)
	delay, waits := f.readFloat("delay", "delay_ms")
	if timed && waits && p.s.Format == "aiperf-turns" {
		f.complain("%stimestamp and delay are both given, want one", f.place)
	}
	if delay < 0 {
		f.complain("%sdelay is %v, want >= 0", f.place, delay)
	}
	switch {
	case timed:
		r.arrives(at)
	case session == nil || p.turns[string(session)] == 0:
		p.s.arrivePaced(r)
	}
	if session != nil {
		r.Session, r.Group = session, session
		r.HasDelay, r.Delay = waits && p.turns[string(session)] > 0, delay
		p.turns[string(session)]++
	}
	if n, ok := f.readCount("input_length"); ok && !f.has("text_input", "messages", "payload") {
		r.Input, r.Private = n, true
		f.outputOf(p.s, r, "output_length", "output_tokens")
		return nil
	}
	body := f.value("payload")
	text := p.t.collectPrompt(f.value("text_input"), f.value("text"), f.value("texts"), f.value("prompt"), f.value("messages"), body)
	if len(text) == 0 {
		f.complain("%sno text of a prompt, want text_input, messages, payload, text, texts or prompt", f.place)
	}
	inner := f.openMember(body, "payload")
	if n, ok := inner.readCount("max_completion_tokens", "max_tokens"); ok && !f.has("output_length") {
		r.Output = n
	} else {
		f.outputOf(p.s, r, "output_length", "output_tokens")
	}
	return p.t.fillPrompt(r, text)
}
