package openai_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/openai"
)

// A request with too many tokens and log probabilities is rejected, even if only the context limits the answers. A
// request at the limit is accepted. A request that the engine may end early is accepted too.
func TestEntriesAreLimited(t *testing.T) {
	for _, test := range []struct {
		kind openai.Kind
		body string
		over bool
	}{
		{openai.Completions, `{"prompt":[1,2],"n":64,"max_tokens":8000,"logprobs":20}`, true},
		{openai.Chat, `{"messages":[{"role":"user","content":"x"}],"n":64,"logprobs":true,"top_logprobs":20,"ignore_eos":true}`, true},
		{openai.Chat, `{"messages":[{"role":"user","content":"x"}],"n":64,"logprobs":true,"top_logprobs":20}`, false},
		{openai.Completions, `{"prompt":[[1],[2],[3],[4]],"n":256,"max_tokens":4097}`, true},
		{openai.Completions, `{"prompt":[[1],[2],[3],[4]],"n":256,"max_tokens":4096}`, false},
		{openai.Completions, `{"prompt":[1,2],"n":1,"max_tokens":8000,"logprobs":20}`, false},
		{openai.Completions, `{"prompt":[1,2],"n":64,"max_tokens":8000}`, false},
	} {
		rq, err := openai.Parse(test.kind, []byte(test.body), openai.Tokenize)
		if err == nil {
			err = rq.Fit(8192)
		}
		var refused *openai.Error
		if test.over != errors.As(err, &refused) {
			t.Errorf("%s: %v", test.body, err)
		}
		if test.over && (refused.Status != http.StatusBadRequest || refused.Param != "max_tokens" || !strings.Contains(refused.Message, "at most 4194304 for all prompts, got ")) {
			t.Errorf("%s: %+v", test.body, refused)
		}
	}
}
