// Package texts reads prompts that are text, and the requests in the log of vLLM.
//
// Counter computes the lengths and block ids of texts. Read text.go, then conversations.go and vllmlog.go.
package texts

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/tokenizer"
)

// Counter computes the length and the block ids of text prompts. Without a tokenizer it estimates the length, and
// blocks are byte ranges.
type Counter struct {
	s      *formats.Stream
	tokens *tokenizer.Tokenizer // nil if there is no tokenizer
	ids    []uint32             // tokens of the current text
	mac    hash.Hash
	sum    []byte
	all    []byte // current prompt
}

const textDomain = "replay text blocks"

// New returns a Counter with the options of the stream.
func New(s *formats.Stream) (*Counter, error) {
	key := s.Options.Key
	if key == nil {
		key = []byte(textDomain)
	}
	t := &Counter{s: s, mac: hmac.New(sha256.New, key)}
	if path := s.Options.Tokenizer; path != "" {
		var err error
		t.tokens, err = tokenizer.Load(path)
		return t, err
	}
	s.Approximate = true
	return t, nil
}

// FillPrompt sets the length and the ids of r to those of the text.
func (t *Counter) FillPrompt(r *formats.Record, text []byte) error {
	if t.tokens != nil {
		return t.fillExactly(r, text)
	}
	rate := t.s.Options.TokensPerByte
	if rate == 0 {
		return fmt.Errorf("prompt has text, no token count; use --tokenizer or --tokens-per-byte")
	}
	tokens := math.Ceil(float64(len(text)) * rate)
	if tokens > scan.MaxTokens {
		return fmt.Errorf("prompt has %d bytes, must have at most %d tokens", len(text), scan.MaxTokens)
	}
	t.fillBlocks(r, int(tokens), func(from, to int) (units int, content []byte) {
		start, end := byteOf(from, rate, len(text)), byteOf(to, rate, len(text))
		return end - start, text[start:end]
	})
	return nil
}

// fillExactly sets the length and the ids of r with the tokenizer.
func (t *Counter) fillExactly(r *formats.Record, text []byte) error {
	t.ids = t.tokens.Append(t.ids[:0], string(text))
	if len(t.ids) > scan.MaxTokens {
		return fmt.Errorf("prompt has %d tokens, must have at most %d", len(t.ids), scan.MaxTokens)
	}
	t.fillTokens(r, t.ids)
	return nil
}

// fillTokens sets the length and the block ids of r to those of a list of tokens.
func (t *Counter) fillTokens(r *formats.Record, ids []uint32) {
	var content []byte
	t.fillBlocks(r, len(ids), func(from, to int) (int, []byte) {
		content = content[:0]
		for _, id := range ids[from:to] {
			content = binary.LittleEndian.AppendUint32(content, id)
		}
		return to - from, content
	})
}

// fillBlocks sets the length of r and an id for each full block. content returns the content of a block and its
// length in bytes or tokens.
func (t *Counter) fillBlocks(r *formats.Record, tokens int, content func(from, to int) (units int, content []byte)) {
	r.Input = tokens
	block, chain := cmp.Or(t.s.Options.TraceBlock, formats.DefaultBlock), [16]byte{}
	for i := range tokens / block {
		units, held := content(i*block, (i+1)*block)
		r.IDs = append(r.IDs, t.linkBlock(&chain, units, held))
	}
}

// linkBlock returns the id of the block that follows the blocks in chain, and adds the block to chain. units is its
// length.
func (t *Counter) linkBlock(chain *[16]byte, units int, content []byte) uint64 {
	t.mac.Reset()
	t.mac.Write([]byte(textDomain))
	t.mac.Write(chain[:])
	t.mac.Write(binary.LittleEndian.AppendUint32(nil, uint32(units)))
	t.mac.Write(content)
	t.sum = t.mac.Sum(t.sum[:0])
	copy(chain[:], t.sum)
	return binary.LittleEndian.Uint64(t.sum)
}

// byteOf returns the estimated byte offset of a token.
func byteOf(token int, rate float64, most int) int {
	return min(int(float64(token)/rate), most)
}

// CollectPrompt returns all text in the values: OpenAI request bodies, lists of messages, lists of strings, or
// strings.
func (t *Counter) CollectPrompt(values ...[]byte) []byte {
	t.all = t.all[:0]
	for _, v := range values {
		t.collect(v, 0)
	}
	return t.all
}

func (t *Counter) collect(v []byte, depth int) {
	switch {
	case len(v) == 0 || depth > scan.MaxDepth:
	case v[0] == '"':
		t.all = append(t.all, scan.UnquoteString(v)...)
	case v[0] == '[':
		parts, _ := scan.SplitList(v, nil)
		for _, p := range parts {
			t.collect(p, depth+1)
		}
	case v[0] == '{':
		var o scan.Object
		o.ReparseText(v)
		for _, key := range []string{"tools", "system", "messages", "role", "content", "text", "prompt", "input"} {
			if key == "content" && o.Has("role") {
				t.all = append(t.all, '\n')
			}
			t.collect(o.Find(key), depth+1)
		}
	}
}

// ReadOutput reads the requested number of output tokens.
func (t *Counter) ReadOutput(f *scan.Fields, r *formats.Record, keys ...string) {
	for _, key := range keys {
		if n, ok := f.ReadCount(key); ok {
			r.Output = n
			return
		}
	}
	if r.Output = t.s.Options.OutputTokens; r.Output == 0 {
		f.Missing(keys[0], "it or --output-len")
	}
}

// textRows reads requests with text prompts. A line has one request, or several turns.
type textRows struct {
	formats.LineRows
	t     *Counter
	turns map[string]int // number of turns so far, by session
}

// Open opens a file in one of the formats in which all prompts are text.
func Open(s *formats.Stream) (formats.Reader, error) {
	s.Chained = s.Options.Sessions != "flat"
	if s.Format == "vllm-custom" || s.Format == "openai-batch" || s.Options.Rate > 0 {
		s.PaceArrivals()
	}
	t, err := New(s)
	p := &textRows{t: t, turns: make(map[string]int)}
	p.S, p.Read = s, p.readRow
	return p, err
}

func (p *textRows) readRow(f *scan.Fields) error {
	session := f.ReadName("session_id")
	if mode := f.ReadText("message_mode"); mode != nil && string(mode) != "history" {
		f.Complain("message_mode is %q, must be history", mode)
	}
	if !f.Has("turns") {
		return p.readTurn(f, session)
	}
	if session == nil {
		session = fmt.Appendf(nil, "line_%d", f.Line)
	}
	for _, turn := range f.Elements("turns") {
		if err := p.readTurn(turn, session); err != nil {
			return err
		}
	}
	return nil
}

// readTurn adds a request.
func (p *textRows) readTurn(f *scan.Fields, session []byte) error {
	r := p.Add(f.Line)
	at, timed := f.ReadStamp("timestamp", 6)
	delay, waits := f.ReadFloat("delay", "delay_ms")
	if timed && waits && p.S.Format == "aiperf-turns" {
		f.Complain("%stimestamp and delay are both given, expected one", f.Place)
	}
	if delay < 0 {
		f.Complain("%sdelay is %v, must be >= 0", f.Place, delay)
	}
	switch {
	case timed:
		r.Arrives(at)
	case session == nil || p.turns[string(session)] == 0:
		p.S.ArrivePaced(r)
	}
	if session != nil {
		r.Session, r.Group = session, session
		r.HasDelay, r.Delay = waits && p.turns[string(session)] > 0, delay
		p.turns[string(session)]++
	}
	if n, ok := f.ReadCount("input_length"); ok && !f.Has("text_input", "messages", "payload") {
		r.Input, r.Private = n, true
		p.t.ReadOutput(f, r, "output_length", "output_tokens")
		return nil
	}
	body := f.Value("payload", "body")
	text := p.t.CollectPrompt(f.Value("text_input"), f.Value("text"), f.Value("texts"), f.Value("prompt"), f.Value("messages"), body)
	if len(text) == 0 {
		f.Complain("%sno text of a prompt, expected text_input, messages, payload, text, texts or prompt", f.Place)
	}
	inner := f.OpenMember(body, "payload")
	if n, ok := inner.ReadCount("max_completion_tokens", "max_tokens"); ok && !f.Has("output_length") {
		r.Output = n
	} else {
		p.t.ReadOutput(f, r, "output_length", "output_tokens")
	}
	return p.t.FillPrompt(r, text)
}

// CountAnswer returns the number of tokens in an answer. pieces are response bodies or stream events. Without a
// tokenizer CountAnswer returns 0.
func (t *Counter) CountAnswer(pieces [][]byte) int {
	if t.tokens == nil {
		return 0
	}
	var said []byte
	for _, p := range pieces {
		var o scan.Object
		o.ReparseText(p)
		v := o.Find("response")
		if len(v) == 0 || v[0] != '"' {
			continue
		}
		for line := range bytes.Lines(scan.UnquoteString(v)) {
			said = append(said, choiceText(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data:")))...)
		}
	}
	return len(t.tokens.AppendBare(nil, string(said)))
}

// choiceText returns the text of the first choice in a response body or stream event of the OpenAI API. choiceText
// returns nil if the body has no text.
func choiceText(body []byte) []byte {
	var o scan.Object
	if o.ParseText(body) != nil {
		return nil
	}
	choice := o.OpenFirst("choices")
	for _, v := range [][]byte{choice.OpenInner("delta").Find("content"), choice.OpenInner("message").Find("content"), choice.Find("text")} {
		if len(v) > 0 && v[0] == '"' {
			return scan.UnquoteString(v)
		}
	}
	return nil
}
