package engine

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/fault"
)

// Request is a request to an engine, and its JSON on the wire. Only TokenIDs is required. Unknown keys are ignored.
type Request struct {
	TokenIDs        []uint32        `json:"token_ids"`
	Model           string          `json:"model,omitempty"` // may be empty in a health probe
	StopConditions  StopConditions  `json:"stop_conditions,omitzero"`
	SamplingOptions json.RawMessage `json:"sampling_options,omitempty"`
	OutputOptions   json.RawMessage `json:"output_options,omitempty"`
	EOSTokenIDs     []uint32        `json:"eos_token_ids,omitempty"`
	Annotations     []string        `json:"annotations,omitempty"`
	MDCSum          string          `json:"mdc_sum,omitempty"` // digest of the model card
	ExtraArgs       json.RawMessage `json:"extra_args,omitempty"`
	Routing         *Routing        `json:"routing,omitempty"`
	PrefillResult   *PrefillResult  `json:"prefill_result,omitempty"` // required on decode workers
	BootstrapInfo   *BootstrapInfo  `json:"bootstrap_info,omitempty"`
	MigrationLink   *TraceLink      `json:"migration_link,omitempty"` // set by routers only
	// RequestTimestampMS is when the request first arrived, in milliseconds since 1970; nil if unknown.
	RequestTimestampMS *float64 `json:"request_timestamp_ms,omitempty"`
	HealthCheck        bool     `json:"_HEALTH_CHECK,omitempty"` // the request is a health probe
	// Local is the data of a server in the same process about the request; nil: none. Local is not encoded.
	Local *Local `json:"-"`
}

// Local is the data of a request for metrics. Engines ignore Local.
type Local struct {
	// Enough reports whether the reader has met its stop condition, so that a stop counts as a normal end; nil:
	// unknown.
	Enough func() bool
	Group  *Group // the group of answers to the same prompt; nil: a single answer
}

// Group is a group of answers to one prompt.
type Group struct{ Size int }

// StopConditions are the limits of an answer. Nil values are not set.
type StopConditions struct {
	MaxTokens          *uint32  `json:"max_tokens,omitempty"`
	MinTokens          *uint32  `json:"min_tokens,omitempty"`
	Stop               []string `json:"stop,omitempty"`
	StopTokenIDs       []uint32 `json:"stop_token_ids,omitempty"`
	StopTokenIDsHidden []uint32 `json:"stop_token_ids_hidden,omitempty"`
	IgnoreEOS          *bool    `json:"ignore_eos,omitempty"`
	MaxThinkingTokens  *uint32  `json:"max_thinking_tokens,omitempty"`
}

// Routing is the workers that should serve a request, and its priority.
type Routing struct {
	BackendInstanceID    *uint64  `json:"backend_instance_id,omitempty"`
	PrefillWorkerID      *uint64  `json:"prefill_worker_id,omitempty"`
	DecodeWorkerID       *uint64  `json:"decode_worker_id,omitempty"`
	DPRank               *uint32  `json:"dp_rank,omitempty"`
	PrefillDPRank        *uint32  `json:"prefill_dp_rank,omitempty"`
	ExpectedOutputTokens *uint32  `json:"expected_output_tokens,omitempty"`
	PriorityJump         *float64 `json:"priority_jump,omitempty"`
}

// PrefillResult is the result of the prefill worker for the decode worker.
type PrefillResult struct {
	DisaggregatedParams json.RawMessage      `json:"disaggregated_params"` // opaque except to the two engines
	PromptTokensDetails *PromptTokensDetails `json:"prompt_tokens_details,omitempty"`
}

// BootstrapInfo is the address and room at which the prefill and the decode worker connect (package rendezvous).
type BootstrapInfo struct {
	Host string `json:"bootstrap_host"`
	Port uint16 `json:"bootstrap_port"`
	Room uint64 `json:"bootstrap_room"`
}

// TraceLink refers to a span of another stage, with ids of 32 and 16 hexadecimal digits.
type TraceLink struct {
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
}

// MaxTokens returns the limit of output tokens, or otherwise if no limit is set.
func (r *Request) MaxTokens(otherwise uint32) uint32 {
	if r.StopConditions.MaxTokens == nil {
		return otherwise
	}
	return *r.StopConditions.MaxTokens
}

// SetMaxTokens sets the limit of output tokens.
func (r *Request) SetMaxTokens(n uint32) {
	r.StopConditions.MaxTokens = &n
}

// DecodeRequest decodes a request. Errors are fault.InvalidArgument.
func DecodeRequest(payload []byte) (*Request, error) {
	var r Request
	if err := json.Unmarshal(payload, &r); err != nil {
		return nil, fault.New(fault.InvalidArgument, "request: %w", err)
	}
	if r.TokenIDs == nil {
		return nil, fault.New(fault.InvalidArgument, "request: token_ids is missing, must be a list of token ids")
	}
	return &r, nil
}

// Chunk is a part of an answer. The chunk with a FinishReason is the last.
type Chunk struct {
	TokenIDs            []uint32        `json:"token_ids"` // new tokens; [] if none
	Tokens              []*string       `json:"tokens,omitempty"`
	Text                *string         `json:"text,omitempty"`
	CumLogProbs         *float64        `json:"cum_log_probs,omitempty"`
	LogProbs            []float64       `json:"log_probs,omitempty"`
	TopLogProbs         json.RawMessage `json:"top_logprobs,omitempty"`
	FinishReason        FinishReason    `json:"finish_reason,omitempty"` // "" except on the last chunk
	StopReason          json.RawMessage `json:"stop_reason,omitempty"`   // the stop string or token that ended the answer
	Index               *uint32         `json:"index,omitempty"`         // index among several answers
	DisaggregatedParams json.RawMessage `json:"disaggregated_params,omitempty"`
	WorkerTraceLink     *TraceLink      `json:"worker_trace_link,omitempty"`
	ExtraArgs           json.RawMessage `json:"extra_args,omitempty"`
	EngineData          json.RawMessage `json:"engine_data,omitempty"`
	CompletionUsage     *Usage          `json:"completion_usage,omitempty"`

	// More means that the next chunk is available without waiting. More is not encoded.
	More bool `json:"-"`
}

// AppendJSON appends the JSON of the chunk.
func (c *Chunk) AppendJSON(dst []byte) ([]byte, error) {
	if !c.isBare() {
		b, err := json.Marshal(c)
		return append(dst, b...), err
	}
	dst = append(dst, chunkHead...)
	for i, t := range c.TokenIDs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(t), 10)
	}
	return append(dst, chunkTail...), nil
}

// The JSON of a bare chunk before and after its tokens.
const chunkHead, chunkTail = `{"token_ids":[`, `]}`

// isBare reports whether the chunk has tokens only.
func (c *Chunk) isBare() bool {
	return c.Tokens == nil && c.Text == nil && c.CumLogProbs == nil && c.LogProbs == nil && c.TopLogProbs == nil && c.FinishReason == "" &&
		c.StopReason == nil && c.Index == nil && c.DisaggregatedParams == nil && c.WorkerTraceLink == nil && c.ExtraArgs == nil && c.EngineData == nil && c.CompletionUsage == nil
}

// ParseChunk decodes a chunk.
func ParseChunk(b []byte) (*Chunk, error) {
	bare := new(tokenChunk)
	if tokens, ok := parseBare(bare.room[:0], b); ok {
		bare.TokenIDs = tokens
		return &bare.Chunk, nil
	}
	c := new(Chunk)
	return c, json.Unmarshal(b, c)
}

// tokenChunk is a chunk with memory for one token.
type tokenChunk struct {
	Chunk
	room [1]uint32
}

// NewTokenChunk returns a chunk with one token.
func NewTokenChunk(token uint32) *Chunk {
	c := &tokenChunk{room: [1]uint32{token}}
	c.TokenIDs = c.room[:]
	return &c.Chunk
}

// parseBare appends the tokens of a bare chunk in the format of AppendJSON. parseBare reports whether b is a bare
// chunk.
func parseBare(tokens []uint32, b []byte) ([]uint32, bool) {
	if !bytes.HasPrefix(b, []byte(chunkHead)) || !bytes.HasSuffix(b, []byte(chunkTail)) {
		return nil, false
	}
	digits := b[len(chunkHead) : len(b)-len(chunkTail)]
	var value uint64
	length := 0 // digits of the token so far
	for i, c := range digits {
		switch {
		case c >= '0' && c <= '9' && (length == 0 || value > 0): // numbers have no leading zeros
			if value, length = value*10+uint64(c-'0'), length+1; value > math.MaxUint32 {
				return nil, false
			}
		case c == ',' && length > 0 && i < len(digits)-1:
			tokens = append(tokens, uint32(value))
			value, length = 0, 0
		default:
			return nil, false
		}
	}
	if length == 0 {
		return nil, false
	}
	return append(tokens, uint32(value)), true
}

// MarshalJSON encodes missing token ids as [].
func (c *Chunk) MarshalJSON() ([]byte, error) {
	type plain Chunk
	if c.TokenIDs != nil {
		return json.Marshal((*plain)(c))
	}
	filled := *c
	filled.TokenIDs = []uint32{}
	return json.Marshal((*plain)(&filled))
}

// Usage is the token counts of a request.
type Usage struct {
	PromptTokens        uint32               `json:"prompt_tokens"`
	CompletionTokens    uint32               `json:"completion_tokens"`
	TotalTokens         uint32               `json:"total_tokens"`
	PromptTokensDetails *PromptTokensDetails `json:"prompt_tokens_details,omitempty"`
}

// PromptTokensDetails is the number of prompt tokens found in a cache.
type PromptTokensDetails struct {
	CachedTokens uint32 `json:"cached_tokens"`
}

// NewUsage returns the usage of a prompt and its answer. The total saturates.
func NewUsage(prompt, completion uint32) *Usage {
	total := min(uint64(prompt)+uint64(completion), math.MaxUint32)
	return &Usage{PromptTokens: prompt, CompletionTokens: completion, TotalTokens: uint32(total)}
}

// FinishReason is why an answer ended. "" means that it has not ended.
type FinishReason string

// Values of FinishReason. FinishError returns the values for errors.
const (
	FinishStop          FinishReason = "stop"
	FinishLength        FinishReason = "length"
	FinishCancelled     FinishReason = "cancelled"
	FinishEOS           FinishReason = "eos"
	FinishContentFilter FinishReason = "content_filter"
)

// errorReason is the prefix of reasons that are errors.
const errorReason = "error: "

// FinishError returns the reason of an answer that ended with an error. If an error type fits, an engine yields an
// *Error instead.
func FinishError(message string) FinishReason {
	return FinishReason(errorReason + message)
}

// ErrorMessage returns the message of a reason from FinishError, and false for other reasons.
func (f FinishReason) ErrorMessage() (string, bool) {
	return strings.CutPrefix(string(f), errorReason)
}

// Err returns the error of a chunk with a FinishError, with type fault.Unknown. For other chunks Err returns nil.
func (c *Chunk) Err() error {
	if message, bad := c.FinishReason.ErrorMessage(); bad {
		return fault.New(fault.Unknown, "%s", message)
	}
	return nil
}

// Name returns the reason for spans: Stop, Length, Cancelled, EoS, ContentFilter, Error(message).
func (f FinishReason) Name() string {
	if message, ok := f.ErrorMessage(); ok {
		return "Error(" + message + ")"
	}
	switch f {
	case FinishStop:
		return "Stop"
	case FinishLength:
		return "Length"
	case FinishCancelled:
		return "Cancelled"
	case FinishEOS:
		return "EoS"
	case FinishContentFilter:
		return "ContentFilter"
	}
	return string(f)
}

// MarshalJSON encodes the reason as a string, as {"error":message}, or as null.
func (f FinishReason) MarshalJSON() ([]byte, error) {
	if message, ok := f.ErrorMessage(); ok {
		return json.Marshal(map[string]string{"error": message})
	}
	if f == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(f))
}

// UnmarshalJSON decodes the output of MarshalJSON. null means no reason, and abort means cancelled.
func (f *FinishReason) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = ""
		return nil
	}
	if bytes.HasPrefix(b, []byte("{")) {
		var object struct {
			Error *string `json:"error"`
		}
		if err := json.Unmarshal(b, &object); err != nil || object.Error == nil {
			return fmt.Errorf(`finish_reason is %.80s, must be a word or {"error":message}`, b)
		}
		*f = FinishError(*object.Error)
		return nil
	}
	var word string
	if err := json.Unmarshal(b, &word); err != nil {
		return fmt.Errorf(`finish_reason is %.80s, must be a word or {"error":message}`, b)
	}
	if word == "abort" {
		word = string(FinishCancelled)
	}
	words := []FinishReason{FinishStop, FinishLength, FinishCancelled, FinishEOS, FinishContentFilter}
	if !slices.Contains(words, FinishReason(word)) {
		return excerpt.Errorf("finish_reason is %.80q, must be one of %q", word, words)
	}
	*f = FinishReason(word)
	return nil
}
