package openai

import (
	"github.com/replay-llm/replay/internal/json"
)

// TokenizeRequest asks for the tokens of a text, or of a conversation. OpenAI has no such
// thing; vLLM's server has it at /tokenize.
type TokenizeRequest struct {
	Model   string // "": not named
	Tokens  []uint32
	Strings bool // return the text of each token
}

// ParseTokenize reads the body of such a request.
func ParseTokenize(body []byte, tokenize func(text string) []uint32) (*TokenizeRequest, error) {
	f, err := readFields(body)
	switch {
	case err != nil:
		return nil, err
	case f.keys == nil && len(f.bad) > 0:
		return nil, f.err()
	}
	t := &TokenizeRequest{Model: f.text("model"), Strings: f.flag("return_token_strs", false)}
	f.flag("add_special_tokens", true) // there are none
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

// Texts returns the text of each token, if that was asked for, else nil.
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

// DetokenizeRequest asks for the text of tokens, at /detokenize of vLLM's server.
type DetokenizeRequest struct {
	Model  string // "": not named
	Tokens []uint32
}

// ParseDetokenize reads the body of such a request.
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
