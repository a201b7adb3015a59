package openai

import (
	"bytes"
	"math"

	"github.com/goccy/go-json"
)

// asked holds the keys that both kinds have. Others are ignored.
type asked struct {
	Model         *string         `json:"model"`
	Stream        *bool           `json:"stream"`
	StreamOptions *streamOptions  `json:"stream_options"`
	MaxTokens     *json.Number    `json:"max_tokens"`
	MinTokens     *json.Number    `json:"min_tokens"`
	N             *json.Number    `json:"n"`
	Stop          json.RawMessage `json:"stop"`
	StopTokenIDs  []uint32        `json:"stop_token_ids"`
	IgnoreEOS     *bool           `json:"ignore_eos"`
	sampling
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// sampling is passed through to the engine.
type sampling struct {
	Temperature       *float64 `json:"temperature,omitempty"`
	TopP              *float64 `json:"top_p,omitempty"`
	TopK              *int     `json:"top_k,omitempty"`
	MinP              *float64 `json:"min_p,omitempty"`
	Seed              *int64   `json:"seed,omitempty"`
	FrequencyPenalty  *float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty   *float64 `json:"presence_penalty,omitempty"`
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty"`
}

// Parse reads the body of a request. What is wrong with it is an *Error.
func Parse(kind Kind, body []byte) (*Request, error) {
	if kind == Chat {
		return parseChat(body)
	}
	return parseCompletion(body)
}

// decodeBody reads a body into one of the structs below.
func decodeBody(body []byte, into any) error {
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return Refuse("", "body is %.40q, want a JSON object", first)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return Refuse("", "body: %v", err)
	}
	return nil
}

// parseCommon takes over the keys that both kinds have.
func (a *asked) parseCommon(kind Kind) (*Request, error) {
	r := &Request{Kind: kind, N: 1}
	if a.Model == nil || *a.Model == "" {
		return nil, Refuse("model", "model is missing, want the name of one")
	}
	r.Model = *a.Model
	r.Stream = a.Stream != nil && *a.Stream
	if a.StreamOptions != nil {
		if !r.Stream {
			return nil, Refuse("stream_options", "stream_options: only with stream")
		}
		r.Usage = a.StreamOptions.IncludeUsage
	}
	n, err := parseCount("n", a.N)
	if err != nil {
		return nil, err
	}
	if n != nil && *n != 1 {
		return nil, Refuse("n", "n is %d, want 1", *n)
	}
	if r.Stop.MaxTokens, err = parseCount("max_tokens", a.MaxTokens); err != nil {
		return nil, err
	}
	if r.Stop.MinTokens, err = parseCount("min_tokens", a.MinTokens); err != nil {
		return nil, err
	}
	if r.Stop.Stop, err = parseStop(a.Stop); err != nil {
		return nil, err
	}
	r.Stop.StopTokenIDs, r.Stop.IgnoreEOS = a.StopTokenIDs, a.IgnoreEOS
	if a.sampling != (sampling{}) {
		if r.Sampling, err = json.Marshal(a.sampling); err != nil {
			return nil, Refuse("", "sampling: %v", err)
		}
	}
	return r, nil
}

// parseCount reads a number of tokens.
func parseCount(key string, n *json.Number) (*uint32, error) {
	if n == nil {
		return nil, nil
	}
	v, err := n.Int64()
	if err != nil || v < 0 || v > math.MaxUint32 {
		return nil, Refuse(key, "%s is %.40s, want a whole number from 0 to %d", key, n.String(), uint32(math.MaxUint32))
	}
	u := uint32(v)
	return &u, nil
}

// parseStop reads one string or a list of them.
func parseStop(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var many []string
	if err := json.Unmarshal(raw, &many); err != nil {
		return nil, Refuse("stop", "stop is %.40s, want a string or a list of strings", raw)
	}
	return many, nil
}

// parseCompletion reads the body of /v1/completions.
func parseCompletion(body []byte) (*Request, error) {
	var a struct {
		asked
		Prompt json.RawMessage `json:"prompt"`
		Echo   *bool           `json:"echo"`
		BestOf *json.Number    `json:"best_of"`
	}
	if err := decodeBody(body, &a); err != nil {
		return nil, err
	}
	r, err := a.parseCommon(Completions)
	if err != nil {
		return nil, err
	}
	if best, err := parseCount("best_of", a.BestOf); err != nil || best != nil && *best != 1 {
		return nil, Refuse("best_of", "best_of is %s, want 1", a.BestOf)
	}
	r.Echo = a.Echo != nil && *a.Echo
	p, err := parsePrompt(a.Prompt)
	r.Prompts = []Prompt{p}
	return r, err
}

// parseChat reads the body of /v1/chat/completions.
func parseChat(body []byte) (*Request, error) {
	var a struct {
		asked
		Messages            []message    `json:"messages"`
		MaxCompletionTokens *json.Number `json:"max_completion_tokens"`
	}
	if err := decodeBody(body, &a); err != nil {
		return nil, err
	}
	if a.MaxCompletionTokens != nil {
		if a.MaxTokens != nil && *a.MaxTokens != *a.MaxCompletionTokens {
			return nil, Refuse("max_completion_tokens", "max_completion_tokens is %.40s and max_tokens is %.40s, want one of them", *a.MaxCompletionTokens, *a.MaxTokens)
		}
		a.MaxTokens = a.MaxCompletionTokens
	}
	r, err := a.parseCommon(Chat)
	if err != nil {
		return nil, err
	}
	if len(a.Messages) == 0 {
		return nil, Refuse("messages", "messages are missing, want at least one")
	}
	text, err := joinMessages(a.Messages)
	if err != nil {
		return nil, err
	}
	r.Prompts = []Prompt{newTextPrompt(text)}
	return r, nil
}
