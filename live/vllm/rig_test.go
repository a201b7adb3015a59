package vllm_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/listen/listentest"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/standalone"
	"github.com/replay-llm/replay/live/vllm"
	"github.com/replay-llm/replay/replay/engineargs"
)

// serve starts a server like the recorded vLLM server, and returns its URL.
func serve(t *testing.T, change ...func(*vllm.Options)) string {
	t.Helper()
	args, err := engineargs.Parse([]byte(`{"scheduler_profile": "vllm-0.32", "block_size": 128, "num_gpu_blocks": 9, "max_num_batched_tokens": 256, "speedup_ratio": 50}`), engineargs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := vllm.Options{Options: standalone.Options{
		Engine: mocker.Options{Model: "tiny", ContextLength: 512, Engine: args}, Version: "0.32.0", Tokenize: tokenize,
	}}
	for _, c := range change {
		c(&o)
	}
	s, err := vllm.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + listentest.Serve(t, s)
}

// tokenize splits texts at spaces, as the tokenizer of the recorded server does.
func tokenize(text string) []uint32 {
	tokens := []uint32{}
	for _, word := range strings.Fields(text) {
		n, _ := strconv.ParseUint(strings.TrimPrefix(word, "t"), 10, 32)
		tokens = append(tokens, uint32(n))
	}
	return tokens
}
