// Package openai implements OpenAI's API without its HTTP part. The package parses completion and chat requests,
// makes engine requests of them, and writes responses, events and errors. If OpenAI and vLLM's server differ, the
// package follows vLLM's server.
//
// A server parses a body (Parse), finds the model and fits the request to it (Fit). Then the server calls an
// engine.Target (Answer.Generate) and writes the pieces (the Append methods of Answer).
//
// Read openai.go, fit.go, parse.go, fields.go, prompt.go, text.go, answer.go, choice.go,
// logprobs.go, shape.go, error.go.
package openai

import (
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/engine"
)

// Kind is the kind of a request. The value is its name in metrics.
type Kind string

// The kinds of requests.
const (
	Completions Kind = "completions"
	Chat        Kind = "chat_completions"
)

// Request is a parsed request.
type Request struct {
	Kind    Kind
	Model   string   // "": the request names no model
	Prompts []Prompt // at least one; exactly one in a chat
	N       int      // answers to each prompt; Fit ensures at least 1

	Stream          bool
	Usage           bool // a stream ends with its usage
	ContinuousUsage bool // each event of a stream has the usage
	Echo            bool // each answer begins with its prompt
	ReturnTokenIDs  bool
	IncludeStop     bool // the text includes the stop string
	LogProbs        int  // number of alternatives with log probabilities per token; -1: no log probabilities

	Stop    engine.StopConditions
	Ignored []string // unsupported keys without an effect, sorted

	tokenize    func(text string) []uint32
	sampling    sampling
	maxTokens   *int64
	minTokens   int64
	role        string // role of the answer in a chat
	truncate    int    // maximum prompt tokens to keep; 0: all, -1: as many as fit
	echoOnly    bool   // the answer is the prompt only
	tokensAsIDs bool   // log probabilities show token ids instead of texts
}

// Prompt is one prompt, given as text or as tokens.
type Prompt struct {
	Text   string   // "" if the prompt was given as tokens
	Tokens []uint32 // at least one token
	IsText bool
}

// Choices returns the number of requested choices: N for each prompt, ordered by prompt.
func (r *Request) Choices() int { return len(r.Prompts) * r.N }

// promptOf returns the prompt of a choice.
func (r *Request) promptOf(choice int) *Prompt { return &r.Prompts[choice/r.N] }

// PromptTokens returns the number of tokens of all prompts.
func (r *Request) PromptTokens() (n int) {
	for i := range r.Prompts {
		n += len(r.Prompts[i].Tokens)
	}
	return n
}

// EngineRequest returns the engine request of a choice. If the request has a seed, each choice of a prompt gets a
// different seed.
func (r *Request) EngineRequest(choice int) *engine.Request {
	rq := &engine.Request{Model: r.Model, TokenIDs: r.promptOf(choice).Tokens, StopConditions: r.Stop}
	s := r.sampling
	if s == (sampling{}) {
		return rq
	}
	if s.Seed != nil {
		seed := *s.Seed + int64(choice%r.N)
		s.Seed = &seed
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // checked numbers always encode
	}
	rq.SamplingOptions = b
	return rq
}
