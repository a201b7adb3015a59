package openai

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/replay-llm/replay/live/engine"
)

// choice is the state of one choice of an answer.
type choice struct {
	speaker Speaker
	begun   bool
	held    []byte // text that may be the beginning of a stop string
	tokens  int    // number of tokens so far
	offset  int    // characters of the texts that have log probabilities
	cached  *engine.PromptTokensDetails
	ended   bool

	// The fields below are set only if the request is not streamed.
	text       []byte
	ids        []uint32
	probs      []tokenProb
	reason     string // finish reason of the choice
	stopReason []byte
}

// Piece is the next part of a choice.
type Piece struct {
	Choice int
	Text   []byte
	Tokens int    // number of new tokens
	Reason string // finish reason; "" before the last piece

	ids        []uint32
	probs      []tokenProb
	offset     int    // characters of text before the first log probability
	all        int    // tokens of the choice so far
	stopReason []byte // JSON of the stop string or stop token that ended the choice; nil: none
	first      bool

	More bool // the next piece is available without waiting
}

// probBytes is the approximate number of bytes of a log probability and its text in a response.
const probBytes = 256

// Bytes returns the approximate number of bytes of the piece in a response that is not streamed.
func (p *Piece) Bytes() int {
	n := 2*len(p.Text) + 4*len(p.ids) + 8
	for i := range p.probs {
		n += probBytes * (1 + len(p.probs[i].top))
	}
	return n
}

// TokenIDs returns the new tokens, if the request has return_token_ids.
func (p *Piece) TokenIDs() []uint32 { return p.ids }

// StopReason returns the JSON of the stop string or stop token that ended the choice; nil: none.
func (p *Piece) StopReason() []byte { return p.stopReason }

// Cached returns the number of cached prompt tokens of a choice; 0: none or unknown.
func (a *Answer) Cached(choice int) uint32 {
	if c := a.choices[choice].cached; c != nil {
		return c.CachedTokens
	}
	return 0
}

// addChunk adds a chunk to a choice and fills p with the new piece.
func (a *Answer) addChunk(index int, c *engine.Chunk, p *Piece) error {
	if err := c.Err(); err != nil {
		return err
	}
	ch := &a.choices[index]
	*p = Piece{Choice: index, Text: p.Text[:0], ids: p.ids[:0], probs: p.probs[:0], offset: ch.offset, More: c.More}
	if !ch.begun {
		ch.begun, p.first = true, true
		a.beginChoice(ch, p)
	}
	echoed := len(p.Text)
	a.addTokens(ch, c, p)
	if c.CompletionUsage != nil && c.CompletionUsage.PromptTokensDetails != nil {
		ch.cached = c.CompletionUsage.PromptTokensDetails
	}
	if c.FinishReason != "" && p.Reason == "" {
		p.Text = append(p.Text, ch.held...)
		p.Text = ch.speaker.AppendRest(p.Text)
		p.Reason, p.stopReason = finishWord(c.FinishReason), c.StopReason
	}
	if a.request.echoOnly {
		p.Text = p.Text[:echoed]
		if p.Reason != "" && len(p.probs) > 0 {
			p.probs = p.probs[:len(p.probs)-1] // log probability of the only generated token
		}
	}
	p.all, ch.ended = ch.tokens, p.Reason != ""
	p.More = p.More && !ch.ended
	if !a.request.Stream {
		ch.text, ch.ids, ch.probs = append(ch.text, p.Text...), append(ch.ids, p.ids...), append(ch.probs, p.probs...)
		ch.reason, ch.stopReason = p.Reason, p.stopReason
	}
	return nil
}

// beginChoice adds the prompt to the first piece of a choice, if the request has echo.
func (a *Answer) beginChoice(ch *choice, p *Piece) {
	if !a.request.Echo {
		return
	}
	prompt := a.request.promptOf(p.Choice)
	if prompt.IsText {
		p.Text = append(p.Text, prompt.Text...)
	}
	for i, t := range prompt.Tokens {
		before := len(p.Text)
		if !prompt.IsText {
			p.Text = ch.speaker.AppendToken(p.Text, t)
		}
		if a.request.LogProbs < 0 {
			continue
		}
		text := string(p.Text[before:])
		if prompt.IsText {
			text = Detokenize([]uint32{t})
			if i > 0 && t >= firstWord && t < firstWord+wordCount {
				text = " " + text
			}
		}
		prob := newTokenProb(t, i, text, max(1, a.request.LogProbs))
		prob.unknown = i == 0
		p.probs = append(p.probs, prob)
		ch.offset += utf8.RuneCountInString(text)
	}
	p.Text = ch.speaker.AppendRest(p.Text)
	ch.speaker.begun = true
}

// addTokens adds the tokens of a chunk, until the choice ends.
func (a *Answer) addTokens(ch *choice, c *engine.Chunk, p *Piece) {
	r := a.request
	for i, t := range c.TokenIDs {
		before := len(p.Text)
		switch {
		case c.Text == nil:
			p.Text = ch.speaker.AppendToken(p.Text, t)
		case i == len(c.TokenIDs)-1:
			p.Text = append(p.Text, *c.Text...)
		}
		if r.LogProbs >= 0 {
			p.probs = append(p.probs, a.newProb(ch, c, i, string(p.Text[before:])))
		}
		if r.ReturnTokenIDs {
			p.ids = append(p.ids, t)
		}
		p.Tokens++
		ch.tokens++
		if a.stopAtToken(ch, t, p, before) || a.stopAtString(ch, p, before) {
			return
		}
	}
	if len(c.TokenIDs) == 0 && c.Text != nil {
		before := len(p.Text)
		p.Text = append(p.Text, *c.Text...)
		a.stopAtString(ch, p, before)
	}
}

// newProb returns the log probability of token i of a chunk. newProb prefers the value of the engine.
func (a *Answer) newProb(ch *choice, c *engine.Chunk, i int, text string) tokenProb {
	n := a.request.LogProbs
	if a.request.Kind == Completions {
		n = max(1, n)
	}
	prob := newTokenProb(c.TokenIDs[i], ch.tokens, text, n)
	if len(c.LogProbs) == len(c.TokenIDs) {
		if prob.logProb = c.LogProbs[i]; n > 0 {
			prob.top[0].logProb = prob.logProb
		}
	}
	ch.offset += utf8.RuneCountInString(text)
	return prob
}

// stopAtToken ends the choice if its latest token is a stop token. before is the offset of the token's text in p.
func (a *Answer) stopAtToken(ch *choice, token uint32, p *Piece, before int) bool {
	stop := &a.request.Stop
	if !slices.Contains(stop.StopTokenIDs, token) || ch.tokens < int(a.request.minTokens) {
		return false
	}
	said := append(slices.Clone(p.Text[:before]), ch.held...)
	if a.request.IncludeStop {
		said = append(said, p.Text[before:]...)
	}
	p.Text, ch.held = said, ch.held[:0]
	p.Reason, p.stopReason = string(engine.FinishStop), strconv.AppendUint(nil, uint64(token), 10)
	return true
}

// stopAtString ends the choice if its text contains a stop string. before is the offset of the new text in p. Text
// that may be the beginning of a stop string stays in ch.held.
func (a *Answer) stopAtString(ch *choice, p *Piece, before int) bool {
	stops := a.request.Stop.Stop
	if len(stops) == 0 {
		return false
	}
	if ch.tokens <= int(a.request.minTokens) {
		return false
	}
	fresh := append(ch.held, p.Text[before:]...)
	p.Text = p.Text[:before]
	longest := 0
	for _, stop := range stops {
		longest = max(longest, len(stop))
		at := bytes.Index(fresh, []byte(stop))
		if at < 0 {
			continue
		}
		if a.request.IncludeStop {
			at += len(stop)
		}
		p.Text = append(p.Text, fresh[:at]...)
		p.Reason, p.stopReason = string(engine.FinishStop), appendString(nil, stop)
		ch.held = ch.held[:0]
		return true
	}
	cut := max(0, len(fresh)-(longest-1))
	for cut > 0 && cut < len(fresh) && !utf8.RuneStart(fresh[cut]) {
		cut--
	}
	p.Text = append(p.Text, fresh[:cut]...)
	ch.held = append(ch.held[:0], fresh[cut:]...)
	return false
}

// finishWord returns the finish reason for responses.
func finishWord(f engine.FinishReason) string {
	if f == engine.FinishEOS {
		return string(engine.FinishStop)
	}
	return string(f)
}
