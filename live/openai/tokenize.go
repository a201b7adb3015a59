package openai

import (
	"fmt"
	"slices"
	"strings"

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
		if strings.Contains(f.bad[0], "model_attributes_type") { // neither a text's nor a conversation's
			f.bad = append(f.bad, f.bad[0])
		}
		return nil, f.err()
	}
	size := len(f.keys)
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
	both := slices.Clone(f.bad) // is wrong with a text as with a conversation
	raw, ok := f.keys["prompt"]
	var text string
	switch {
	case !ok:
		f.complain("missing", "body.prompt", "Field required", fmt.Sprintf("<dict of %d items>", size), "")
	case raw[0] != '"' || json.Unmarshal(raw, &text) != nil:
		f.complain("string_type", "body.prompt", "Input should be a valid string", inputOf(raw), "")
	}
	if len(f.bad) > 0 {
		f.complain("missing", "body.messages", "Field required", fmt.Sprintf("<dict of %d items>", size), "")
		f.bad = append(f.bad, both...)
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
	size := len(f.keys)
	d := &DetokenizeRequest{Model: f.text("model")}
	raw, ok := f.keys["tokens"]
	switch {
	case !ok:
		return nil, f.refuse("missing", "body.tokens", "Field required", fmt.Sprintf("<dict of %d items>", size), "")
	case json.Unmarshal(raw, &d.Tokens) != nil, d.Tokens == nil:
		return nil, f.complainTokens("body.tokens", raw)
	}
	return d, f.err()
}
