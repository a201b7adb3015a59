package openai

import (
	"fmt"
	"math"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// Parse parses the body of a request. Every error is an *Error with the status and type of vLLM's server. Fit makes
// the checks that depend on the model.
func Parse(kind Kind, body []byte, tokenize func(text string) []uint32) (*Request, error) {
	f, err := openFields(body)
	if err != nil {
		return nil, err
	}
	r := &Request{Kind: kind, LogProbs: -1, tokenize: tokenize}
	f.requireValue("n", "an integer")
	f.requireValue("min_tokens", "an integer")
	for _, read := range []func(*fields) error{r.readCommon, r.readStops, r.readSampling, r.refuseUnknowing, r.readKind} {
		if err := read(f); err != nil {
			return nil, err
		}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if r.Kind == Chat {
		err = r.readMessages(f)
	} else {
		err = r.readPrompt(f)
	}
	if err != nil {
		return nil, err
	}
	if n := f.integer("truncate_prompt_tokens"); n != nil {
		r.truncate = int(max(-1, min(*n, math.MaxInt32)))
	}
	f.skip("user", "request_id", "skip_special_tokens", "spaces_between_special_tokens", "length_penalty", "parallel_tool_calls")
	r.Ignored = f.rest()
	return r, f.err()
}

// readCommon reads the keys that both kinds of requests have.
func (r *Request) readCommon(f *fields) error {
	var options struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	}
	raw := f.keys["stream_options"]
	r.Model = f.text("model")
	r.Stream = f.flag("stream", false)
	if f.object("stream_options", &options) && !r.Stream && len(raw) > len("{}") {
		return Refuse("stream_options", "stream_options requires stream")
	}
	r.Usage, r.ContinuousUsage = options.IncludeUsage, options.ContinuousUsage && options.IncludeUsage
	r.Echo = f.flag("echo", false)
	r.ReturnTokenIDs = f.flag("return_token_ids", false)
	r.tokensAsIDs = f.flag("return_tokens_as_token_ids", false)
	f.flag("add_special_tokens", true) // prompts have no special tokens
	f.text("user")
	r.N = 1
	if n := f.integer("n"); n != nil {
		r.N = int(max(math.MinInt32, min(*n, math.MaxInt32)))
	}
	r.maxTokens = f.integer("max_tokens")
	if n := f.integer("min_tokens"); n != nil {
		r.minTokens = *n
	}
	return nil
}

// readStops reads the stop conditions.
func (r *Request) readStops(f *fields) error {
	if f.flag("ignore_eos", false) {
		yes := true
		r.Stop.IgnoreEOS = &yes
	}
	r.IncludeStop = f.flag("include_stop_str_in_output", false)
	for i, raw := range f.list("stop_token_ids") {
		v := f.parseInteger(fmt.Sprintf("body.stop_token_ids.%d", i), raw)
		switch {
		case v == nil:
		case *v < 0 || *v > math.MaxUint32:
			return Refuse("stop_token_ids", "stop_token_ids has %d, must be token ids", *v)
		default:
			r.Stop.StopTokenIDs = append(r.Stop.StopTokenIDs, uint32(*v))
		}
	}
	raw, ok := f.takeKey("stop")
	if !ok {
		return nil
	}
	const place, most = "body.stop", 4
	var one string
	if json.Unmarshal(raw, &one) == nil {
		r.Stop.Stop = []string{one}
		return nil
	}
	var many []string
	switch err := json.Unmarshal(raw, &many); {
	case err == nil && len(many) > most:
		f.complain(place, raw, fmt.Sprintf("at most %d strings", most))
	case err != nil:
		f.complain(place, raw, "a string or a list of strings")
	}
	r.Stop.Stop = many
	return nil
}

// sampling contains the sampling parameters.
type sampling struct {
	Temperature       *float64 `json:"temperature,omitempty"`
	TopP              *float64 `json:"top_p,omitempty"`
	TopK              *int64   `json:"top_k,omitempty"`
	MinP              *float64 `json:"min_p,omitempty"`
	Seed              *int64   `json:"seed,omitempty"`
	FrequencyPenalty  *float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty   *float64 `json:"presence_penalty,omitempty"`
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty"`
}

// readSampling reads the sampling parameters.
func (r *Request) readSampling(f *fields) error {
	r.sampling = sampling{
		Temperature: f.number("temperature"), TopP: f.number("top_p"), TopK: f.integer("top_k"), MinP: f.number("min_p"),
		Seed: f.integer("seed"), FrequencyPenalty: f.number("frequency_penalty"),
		PresencePenalty: f.number("presence_penalty"), RepetitionPenalty: f.number("repetition_penalty"),
	}
	return nil
}

// refuseUnknowing rejects parameters that require a real model. A simulated engine cannot follow such parameters.
func (r *Request) refuseUnknowing(f *fields) error {
	const why = "the engine is simulated and draws its tokens at random"
	var bias map[string]json.RawMessage
	if f.object("logit_bias", &bias) && len(bias) > 0 {
		return Refuse("logit_bias", "logit_bias is not supported: %s", why)
	}
	if raw, ok := f.keys["allowed_token_ids"]; ok && string(raw) == "[]" {
		return Refuse("allowed_token_ids", "allowed_token_ids is empty, must have at least one id")
	}
	for _, key := range []string{"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "allowed_token_ids"} {
		if raw, ok := f.takeKey(key); ok {
			return Refuse(key, "%s is %.40s, which is not supported: %s", key, raw, why)
		}
	}
	for _, key := range []string{"bad_words", "functions"} {
		if list := f.list(key); len(list) > 0 {
			return Refuse(key, "%s is not supported: %s", key, why)
		}
	}
	for _, key := range []string{"prompt_logprobs", "prompt_embeds"} {
		if raw, ok := f.takeKey(key); ok {
			return Refuse(key, "%s is %.40s, which is not supported: prompts are not computed", key, raw)
		}
	}
	if f.flag("use_beam_search", false) {
		return Refuse("use_beam_search", "use_beam_search is not supported: %s", why)
	}
	if raw, there := f.takeKey("cache_salt"); there && string(raw) == `""` {
		return Refuse("cache_salt", "cache_salt is empty, must have at least one character")
	} else if there {
		return Refuse("cache_salt", "cache_salt is not supported: prefix caches tell blocks apart by their tokens alone")
	}
	return r.checkFormat(f)
}

// checkFormat rejects every response_format except text.
func (r *Request) checkFormat(f *fields) error {
	var format struct {
		Type   json.RawMessage `json:"type"`
		Schema json.RawMessage `json:"json_schema"`
	}
	if !f.object("response_format", &format) {
		return nil
	}
	switch kind := strings.Trim(string(format.Type), `"`); {
	case kind == "text":
		return nil
	case kind == "json_schema" && (len(format.Schema) == 0 || string(format.Schema) == "null"):
		return Refuse("response_format", "response_format of type \"json_schema\" requires json_schema")
	case kind == "json_schema", kind == "json_object", kind == "structural_tag":
		return Refuse("response_format", "response_format of type %q is not supported: the engine is simulated, its words are no JSON; use \"text\"", kind)
	}
	raw := format.Type
	if len(raw) == 0 {
		raw = json.RawMessage("null")
	}
	f.complain("body.response_format.type", raw, "text, json_object or json_schema")
	return nil
}

// readKind reads the parameters that only one kind of request has.
func (r *Request) readKind(f *fields) error {
	if r.Kind == Chat {
		if n := f.integer("max_completion_tokens"); n != nil {
			r.maxTokens = n
		}
		if err := r.readTools(f); err != nil {
			return err
		}
		return r.readChatLogProbs(f)
	}
	if raw, ok := f.takeKey("suffix"); ok {
		return Refuse("suffix", "suffix is %.40s, which is not supported: the engine is simulated and fills in nothing", raw)
	}
	if best := f.integer("best_of"); best != nil && *best != int64(r.N) {
		return Refuse("best_of", "best_of is %d, must be n, %d: no answer is better than another", *best, r.N)
	}
	n := f.integer("logprobs")
	switch {
	case n == nil:
	case *n < -1:
		return Refuse("logprobs", "logprobs is %d, must be at least 0, or -1 for all tokens", *n)
	default:
		r.LogProbs = clampLogProbs(*n)
	}
	return nil
}

// readChatLogProbs reads the log probability parameters of a chat.
func (r *Request) readChatLogProbs(f *fields) error {
	on := f.flag("logprobs", false)
	top := f.integer("top_logprobs")
	switch {
	case top != nil && *top < -1:
		return Refuse("top_logprobs", "top_logprobs is %d, must be at least 0, or -1 for all tokens", *top)
	case top != nil && *top != 0 && !on:
		return Refuse("top_logprobs", "top_logprobs requires logprobs")
	case on:
		r.LogProbs = 0
		if top != nil {
			r.LogProbs = clampLogProbs(*top)
		}
	}
	return nil
}

// clampLogProbs converts a number of log probabilities to int. -1 means all tokens.
func clampLogProbs(n int64) int {
	if n < 0 {
		return wordCount
	}
	return int(min(n, math.MaxInt32))
}

// readTools rejects requests that require a tool call.
func (r *Request) readTools(f *fields) error {
	choice, chosen := f.takeKey("tool_choice")
	_, there := f.keys["tools"]
	tools := f.list("tools")
	word := strings.Trim(string(choice), `"`)
	switch {
	case there && tools != nil && len(tools) == 0:
		return Refuse("tools", "tools is empty, must have at least one tool")
	case chosen && word != "none" && tools == nil:
		return Refuse("tool_choice", "tool_choice requires tools")
	case tools == nil, word == "none":
		return nil
	case chosen && word != "auto":
		return Refuse("tool_choice", "tool_choice is %.60s, which is not supported: the engine is simulated and calls no tools; use \"none\"", choice)
	}
	return Refuse("tools", "tools with tool_choice \"auto\" are not supported: the engine is simulated and calls none; use tool_choice \"none\"")
}
