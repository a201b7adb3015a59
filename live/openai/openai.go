// Package openai is OpenAI's API without its HTTP: the bodies of requests for completions and chat completions, the
// engine requests for them, and the answers, whole, as events and as errors. Where OpenAI and vLLM's server differ, it
// does as vLLM's, down to the words of errors.
//
// A server parses a body (Parse), finds the model, fits the request to it (Fit), calls an engine.Target
// (Answer.Generate) and writes the items (the Append methods of Answer).
//
// Read openai.go, fit.go, parse.go, fields.go, prompt.go, text.go, answer.go, choice.go,
// logprobs.go, shape.go, error.go.
package openai

import (
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/engine"
)

// Kind is one of the ways to ask for tokens, by its name in metrics.
type Kind string

// The kinds of requests.
const (
	Completions Kind = "completions"
	Chat        Kind = "chat_completions"
)

// Request is a request as it was understood.
type Request struct {
	Kind    Kind
	Model   string   // "": not named
	Prompts []Prompt // at least one; of chats one
	N       int      // answers to each prompt; at least 1 once it is fitted

	Stream          bool
	Usage           bool // a stream is to end with what was used
	ContinuousUsage bool // and each event is to say so
	Echo            bool // each answer is to begin with its prompt
	ReturnTokenIDs  bool
	IncludeStop     bool // the stop string is part of the text
	LogProbs        int  // how many log probabilities of each token besides its own; -1: none at all

	Stop    engine.StopConditions
	Ignored []string // keys that mean nothing here, in order

	tokenize    func(text string) []uint32
	sampling    sampling
	maxTokens   *int64
	minTokens   int64
	role        string // of the speaker in a chat
	truncate    int    // keep this number of tokens of a prompt; 0: all, -1: what fits
	echoOnly    bool   // the prompt is the whole answer
	tokensAsIDs bool   // log probabilities name tokens by their numbers
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

// promptOf returns the prompt of a choice.
func (r *Request) promptOf(choice int) *Prompt { return &r.Prompts[choice/r.N] }

// PromptTokens returns the number of tokens of all prompts.
func (r *Request) PromptTokens() (n int) {
	for i := range r.Prompts {
		n += len(r.Prompts[i].Tokens)
	}
	return n
}

// EngineRequest returns the request to an engine for a choice. Each of several answers to one prompt has a separate
// seed, if there is one.
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
		panic(err) // numbers that were checked cannot fail
	}
	rq.SamplingOptions = b
	return rq
}
