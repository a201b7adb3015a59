// Package openai is OpenAI's API without its HTTP: what the bodies of requests for
// completions and chat completions mean, what an engine is asked for them, and
// what the answers look like, whole, as events and as errors. Where OpenAI and
// vLLM's server differ, it does as vLLM's.
//
// A server parses a body (Parse), asks an engine.Target (Answer.Generate) and
// writes what comes (the Append methods of Answer).
//
// Read openai.go, parse.go, prompt.go, text.go, answer.go, shape.go, error.go.
package openai

import (
	"github.com/goccy/go-json"

	"github.com/replay-llm/replay/live/engine"
)

// Kind is one of the ways to ask for tokens, by its name in metrics.
type Kind string

// The kinds of requests.
const (
	Completions Kind = "completions"
	Chat        Kind = "chat_completions"
)

// Path returns the path at which requests of this kind are answered.
func (k Kind) Path() string {
	if k == Chat {
		return "/v1/chat/completions"
	}
	return "/v1/completions"
}

// Request is a request as it was understood.
type Request struct {
	Kind    Kind
	Model   string
	Prompts []Prompt // at least one; of chats one
	N       int      // answers to each prompt, at least 1
	Stream  bool
	Usage   bool // a stream is to end with what was used
	Echo    bool // each answer is to begin with its prompt

	Stop     engine.StopConditions
	Sampling json.RawMessage // sampling options, for the engine; nil: none
}

// Prompt is a text, or tokens.
type Prompt struct {
	Text   string   // unless it was given as tokens
	Tokens []uint32 // never empty
	IsText bool
}

// Choices returns the number of answers that are asked for: N for each prompt, one
// prompt after the other.
func (r *Request) Choices() int { return len(r.Prompts) * r.N }

// PromptTokens returns the number of tokens of all prompts.
func (r *Request) PromptTokens() (n int) {
	for i := range r.Prompts {
		n += len(r.Prompts[i].Tokens)
	}
	return n
}

// CheckContext refuses a request that does not fit in the context of its model; 0 is
// no limit.
func (r *Request) CheckContext(context int) error {
	for i := range r.Prompts {
		if n := len(r.Prompts[i].Tokens); context > 0 && n > context {
			return Refuse("prompt", "prompt has %d tokens, want at most %d, the context length of %s", n, context, r.Model)
		}
	}
	return nil
}

// EngineRequest returns what an engine is asked for a choice.
func (r *Request) EngineRequest(choice int) *engine.Request {
	return &engine.Request{
		Model: r.Model, TokenIDs: r.Prompts[choice/r.N].Tokens, StopConditions: r.Stop, SamplingOptions: r.Sampling,
	}
}
