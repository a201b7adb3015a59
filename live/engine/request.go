package engine

import (
	"github.com/goccy/go-json"

	"github.com/replay-llm/replay/live/fault"
)

// Request is what an engine is asked, in JSON on the wire. Everything but
// TokenIDs may be absent. Keys that are not here are ignored.
type Request struct {
	TokenIDs        []uint32        `json:"token_ids"`
	Model           string          `json:"model,omitempty"` // may be empty on a health probe
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
	// RequestTimestampMS is when the request arrived first, in milliseconds
	// since 1970; nil if nobody noted it.
	RequestTimestampMS *float64 `json:"request_timestamp_ms,omitempty"`
	HealthCheck        bool     `json:"_HEALTH_CHECK,omitempty"` // a probe
}

// StopConditions are when to end. Nil is unset.
type StopConditions struct {
	MaxTokens          *uint32  `json:"max_tokens,omitempty"`
	MinTokens          *uint32  `json:"min_tokens,omitempty"`
	Stop               []string `json:"stop,omitempty"`
	StopTokenIDs       []uint32 `json:"stop_token_ids,omitempty"`
	StopTokenIDsHidden []uint32 `json:"stop_token_ids_hidden,omitempty"`
	IgnoreEOS          *bool    `json:"ignore_eos,omitempty"`
	MaxThinkingTokens  *uint32  `json:"max_thinking_tokens,omitempty"`
}

// Routing holds who should serve a request and how urgent it is.
type Routing struct {
	BackendInstanceID    *uint64  `json:"backend_instance_id,omitempty"`
	PrefillWorkerID      *uint64  `json:"prefill_worker_id,omitempty"`
	DecodeWorkerID       *uint64  `json:"decode_worker_id,omitempty"`
	DPRank               *uint32  `json:"dp_rank,omitempty"`
	PrefillDPRank        *uint32  `json:"prefill_dp_rank,omitempty"`
	ExpectedOutputTokens *uint32  `json:"expected_output_tokens,omitempty"`
	PriorityJump         *float64 `json:"priority_jump,omitempty"`
}

// PrefillResult is what the prefill worker left for the decode worker.
type PrefillResult struct {
	DisaggregatedParams json.RawMessage      `json:"disaggregated_params"` // opaque to all but the two engines
	PromptTokensDetails *PromptTokensDetails `json:"prompt_tokens_details,omitempty"`
}

// BootstrapInfo is where prefill and decode worker meet (package rendezvous).
type BootstrapInfo struct {
	Host string `json:"bootstrap_host"`
	Port uint16 `json:"bootstrap_port"`
	Room uint64 `json:"bootstrap_room"`
}

// TraceLink points at a span of another stage: 32 and 16 hex digits.
type TraceLink struct {
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
}

// MaxTokens returns the limit of output tokens, or otherwise if the request has none.
func (r *Request) MaxTokens(otherwise uint32) uint32 {
	if r.StopConditions.MaxTokens == nil {
		return otherwise
	}
	return *r.StopConditions.MaxTokens
}

// SetMaxTokens limits the output tokens.
func (r *Request) SetMaxTokens(n uint32) {
	r.StopConditions.MaxTokens = &n
}

// DecodeRequest reads a request. Its errors are fault.InvalidArgument.
func DecodeRequest(payload []byte) (*Request, error) {
	var r Request
	if err := json.Unmarshal(payload, &r); err != nil {
		return nil, fault.New(fault.InvalidArgument, "request: %w", err)
	}
	if r.TokenIDs == nil {
		return nil, fault.New(fault.InvalidArgument, "request: token_ids is missing, want a list of token ids")
	}
	return &r, nil
}
