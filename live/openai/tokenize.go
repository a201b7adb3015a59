package openai

import (
	"github.com/replay-llm/replay/internal/json"
)

// TokenizeRequest requests the tokens of a text or of a chat. OpenAI's API has no such request. vLLM's server serves
// tokenize requests at /tokenize.
type TokenizeRequest struct {
	Model   string // "": the request names no model
	Tokens  []uint32
	Strings bool // include the text of each token
}

// ParseTokenize parses the body of a tokenize request.
func ParseTokenize(body []byte, tokenize func(text string) []uint32) (*TokenizeRequest, error) {
	f, err := readFields(body)
	switch {
	case err != nil:
		return nil, err
	case f.keys == nil && len(f.bad) > 0:
		return nil, f.err()
	}
	t := &TokenizeRequest{Model: f.text("model"), Strings: f.flag("return_token_strs", false)}
	f.flag("add_special_tokens", true) // prompts have no special tokens
	r := &Request{Model: t.Model, tokenize: tokenize}
	if _, chat := f.keys["messages"]; chat {
		if err := r.readMessages(f); err != nil {
			return nil, err
		}
		t.Tokens = r.Prompts[0].Tokens
		return t, f.err()
	}
	raw, ok := f.keys["prompt"]
	var text string
	switch {
	case !ok:
		f.complainMissing("body.prompt", "a string, or messages a list")
	case raw[0] != '"' || json.Unmarshal(raw, &text) != nil:
		f.complain("body.prompt", raw, "a string")
	}
	if len(f.bad) > 0 {
		return nil, f.err()
	}
	t.Tokens = tokenize(text)
	return t, nil
}

// Texts returns the text of each token if Strings is set, else nil.
func (t *TokenizeRequest) Texts() []string {
	if !t.Strings {
		return nil
	}
	texts := make([]string, len(t.Tokens))
	for i, token := range t.Tokens {
		texts[i] = Detokenize([]uint32{token})
	}
	return texts
}

// DetokenizeRequest requests the text of tokens. vLLM's server serves detokenize requests at /detokenize.
type DetokenizeRequest struct {
	Model  string // "": the request names no model
	Tokens []uint32
}

// ParseDetokenize parses the body of a detokenize request.
func ParseDetokenize(body []byte) (*DetokenizeRequest, error) {
	f, err := openFields(body)
	if err != nil {
		return nil, err
	}
	d := &DetokenizeRequest{Model: f.text("model")}
	raw, ok := f.keys["tokens"]
	switch {
	case !ok:
		f.complainMissing("body.tokens", "a list of token ids")
		return nil, f.err()
	case json.Unmarshal(raw, &d.Tokens) != nil, d.Tokens == nil:
		return nil, f.complainTokens("body.tokens", raw)
	}
	return d, f.err()
}
