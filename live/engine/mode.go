package engine

import (
	"strings"

	"github.com/replay-llm/replay/live/fault"
)

// Mode is the part of a request that a worker serves.
type Mode string

// The modes.
const (
	// Aggregated workers serve whole requests.
	Aggregated Mode = "agg"
	// Prefill workers compute the prompt and one token. Their terminal carries
	// what the decode worker needs, as DisaggregatedParams.
	Prefill Mode = "prefill"
	// Decode workers go on from there; they refuse requests without a
	// PrefillResult. They are not told of a stop before the first token, so that
	// a transfer of KV blocks is not left without its receiver.
	Decode Mode = "decode"
)

// ParseMode reads agg (or aggregated), prefill or decode, in any case.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(strings.ToLower(strings.TrimSpace(text))); m {
	case "aggregated":
		return Aggregated, nil
	case Aggregated, Prefill, Decode:
		return m, nil
	}
	return "", fault.New(fault.BackendInvalidArgument, "disaggregation mode is %q, want agg, prefill or decode", text)
}

// EndpointType is a kind of request that a worker answers.
type EndpointType string

// The kinds of requests.
const (
	Chat            EndpointType = "chat"
	Completions     EndpointType = "completions"
	Embedding       EndpointType = "embedding"
	Tensor          EndpointType = "tensor"
	PrefillEndpoint EndpointType = "prefill"
)

// ParseEndpointTypes reads a comma list of kinds of requests.
func ParseEndpointTypes(text string) ([]EndpointType, error) {
	var types []EndpointType
	for word := range strings.SplitSeq(text, ",") {
		t := EndpointType(strings.ToLower(strings.TrimSpace(word)))
		switch t {
		case "embeddings":
			t = Embedding
		case Chat, Completions, Embedding, Tensor, PrefillEndpoint:
		default:
			return nil, fault.New(fault.BackendInvalidArgument,
				"endpoint types are %q, want a comma list of chat, completions, embedding, tensor, prefill", text)
		}
		types = append(types, t)
	}
	return types, nil
}
