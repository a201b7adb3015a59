package engine

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/fault"
)

// A request with all keys is unchanged after decoding and encoding. Unsigned 64-bit numbers keep all bits, and
// unknown keys are ignored.
func TestRequestWire(t *testing.T) {
	full := `{"token_ids":[1,2],"model":"m","stop_conditions":{"max_tokens":3,"min_tokens":1,"stop":["x"],"stop_token_ids":[7],` +
		`"stop_token_ids_hidden":[8],"ignore_eos":true,"max_thinking_tokens":2},"sampling_options":{"n":1},"output_options":{"logprobs":2},` +
		`"eos_token_ids":[2],"annotations":["a"],"mdc_sum":"s","extra_args":{"k":1},"routing":{"backend_instance_id":18446744073709551615,` +
		`"prefill_worker_id":1,"decode_worker_id":2,"dp_rank":3,"prefill_dp_rank":4,"expected_output_tokens":5,"priority_jump":0.5},` +
		`"prefill_result":{"disaggregated_params":{"h":18446744073709551615},"prompt_tokens_details":{"cached_tokens":4}},` +
		`"bootstrap_info":{"bootstrap_host":"h","bootstrap_port":65535,"bootstrap_room":9223372036854775807},` +
		`"migration_link":{"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331"},"request_timestamp_ms":1.5,"_HEALTH_CHECK":true}`
	r, err := DecodeRequest([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(r); err != nil || string(got) != full {
		t.Errorf("wrote (%v)\n%s, want\n%s", err, got, full)
	}
	bare := `{"token_ids":[]}`
	r, err = DecodeRequest([]byte(`{"token_ids":[],"later":{"a":[1]},"model":""}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(r); string(got) != bare {
		t.Errorf("wrote %s, want %s", got, bare)
	}
	if r.MaxTokens(16) != 16 {
		t.Error("an unset limit is not the default")
	}
	r.SetMaxTokens(0)
	if r.MaxTokens(16) != 0 {
		t.Error("a limit of 0 is none")
	}
}

func TestBadRequests(t *testing.T) {
	for _, bad := range []string{``, `{}`, `[]`, `{"token_ids":null}`, `{"token_ids":[-1]}`, `{"token_ids":[4294967296]}`, `{"token_ids":[1],"routing":{"dp_rank":"x"}}`} {
		if _, err := DecodeRequest([]byte(bad)); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v, want an invalid argument", bad, err)
		}
	}
}

// A chunk always has token_ids. Other keys are omitted if unset, and may be null.
func TestChunkWire(t *testing.T) {
	text, logprob, index := "t", -0.5, uint32(1)
	usage := NewUsage(3, 4)
	usage.PromptTokensDetails = &PromptTokensDetails{CachedTokens: 2}
	tests := []struct {
		chunk Chunk
		want  string
	}{
		{Chunk{}, `{"token_ids":[]}`},
		{Chunk{TokenIDs: []uint32{5}, Tokens: []*string{&text, nil}, Text: &text, CumLogProbs: &logprob, LogProbs: []float64{-0.5},
			FinishReason: FinishLength, StopReason: json.RawMessage(`"x"`), Index: &index, CompletionUsage: usage,
			DisaggregatedParams: json.RawMessage(`{"h":1}`), WorkerTraceLink: &TraceLink{"a", "b"}},
			`{"token_ids":[5],"tokens":["t",null],"text":"t","cum_log_probs":-0.5,"log_probs":[-0.5],"finish_reason":"length","stop_reason":"x","index":1,` +
				`"disaggregated_params":{"h":1},"worker_trace_link":{"trace_id":"a","span_id":"b"},` +
				`"completion_usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}}`},
		{Chunk{FinishReason: FinishError("broke")}, `{"token_ids":[],"finish_reason":{"error":"broke"}}`},
	}
	for _, test := range tests {
		got, err := json.Marshal(&test.chunk)
		if err != nil || string(got) != test.want {
			t.Errorf("wrote (%v)\n%s, want\n%s", err, got, test.want)
		}
		var back Chunk
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatal(err)
		}
		if test.chunk.TokenIDs == nil {
			test.chunk.TokenIDs = []uint32{}
		}
		if !reflect.DeepEqual(back, test.chunk) {
			t.Errorf("read %+v, want %+v", back, test.chunk)
		}
	}
	var c Chunk
	nulls := `{"token_ids":[1],"finish_reason":null,"text":null,"tokens":null,"cum_log_probs":null,"log_probs":null,"top_logprobs":null,"index":null}`
	if err := json.Unmarshal([]byte(nulls), &c); err != nil || c.FinishReason != "" || c.Text != nil {
		t.Errorf("nulls read as %+v (%v)", c, err)
	}
	if got := NewUsage(math.MaxUint32, 2).TotalTokens; got != math.MaxUint32 {
		t.Errorf("total %d, want it to saturate", got)
	}
}

func TestFinishReasons(t *testing.T) {
	tests := []struct {
		wire string
		want FinishReason
		name string
	}{
		{`"stop"`, FinishStop, "Stop"},
		{`"length"`, FinishLength, "Length"},
		{`"cancelled"`, FinishCancelled, "Cancelled"},
		{`"abort"`, FinishCancelled, "Cancelled"},
		{`"eos"`, FinishEOS, "EoS"},
		{`"content_filter"`, FinishContentFilter, "ContentFilter"},
		{`{"error":"no GPU"}`, FinishError("no GPU"), "Error(no GPU)"},
		{`{"error":""}`, FinishError(""), "Error()"},
		{`null`, "", ""},
	}
	for _, test := range tests {
		var got FinishReason
		if err := json.Unmarshal([]byte(test.wire), &got); err != nil || got != test.want || got.Name() != test.name {
			t.Errorf("%s: read %q (%v), name %q", test.wire, got, err, got.Name())
		}
		again, err := json.Marshal(got)
		if wrote := strings.Replace(test.wire, "abort", "cancelled", 1); err != nil || string(again) != wrote {
			t.Errorf("%s: wrote %s (%v)", test.wire, again, err)
		}
	}
	for _, bad := range []string{`"done"`, `7`, `{}`, `{"error":7}`, `""`} {
		var got FinishReason
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s: read as %q", bad, got)
		}
	}
}
