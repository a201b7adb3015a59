package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/openai"
)

// whole is an answer as a client decodes it.
type whole struct {
	Choices []struct {
		Index   int
		Text    string
		Message struct{ Content string }
		Delta   struct{ Content string }

		LogProbs *struct {
			TextOffset []int      `json:"text_offset"`
			Probs      []*float64 `json:"token_logprobs"`
			Tokens     []string
			Top        []map[string]float64 `json:"top_logprobs"`
		}
		FinishReason string `json:"finish_reason"`
		StopReason   any    `json:"stop_reason"`
		TokenIDs     []int  `json:"token_ids"`
	}
	Usage *engine.Usage
}

func ask(t *testing.T, body string, target engine.Target) *whole {
	t.Helper()
	text, err := serve(t, openai.Completions, []byte(body), target)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var w whole
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &w
}

// script returns an engine that generates the tokens of a text.
func script(text string) *drawing { return &drawing{script: openai.Tokenize(text)} }

// An answer ends before a stop string or at a stop token, but not before min_tokens tokens. Then the engine of the
// answer is stopped. The text of a stream is the same as the text of a whole answer.
func TestStop(t *testing.T) {
	const says = "the people of the world have many good books" // 9 tokens
	for _, c := range []struct {
		parameters, text, reason string
		stop                     any
		tokens                   int
	}{
		{`"max_tokens":9`, says, "length", nil, 9},
		{`"max_tokens":9,"stop":"world"`, "the people of the ", "stop", "world", 5},
		{`"max_tokens":9,"stop":["zz","of the"]`, "the people ", "stop", "of the", 4},
		{`"max_tokens":9,"stop":["people","the"]`, "", "stop", "the", 1},
		{`"max_tokens":9,"stop":"the","min_tokens":1`, "the people of ", "stop", "the", 4},
		{`"max_tokens":9,"stop":"the","min_tokens":4`, says, "length", nil, 9},
		{`"max_tokens":9,"stop":"world","include_stop_str_in_output":true`, "the people of the world", "stop", "world", 5},
		{`"max_tokens":9,"stop":"worldly"`, says, "length", nil, 9},
		{`"max_tokens":3,"stop":"of the"`, "the people of", "length", nil, 3},
		{`"max_tokens":9,"stop":" good books"`, "the people of the world have many", "stop", " good books", 9},
		{fmt.Sprintf(`"max_tokens":9,"stop_token_ids":[%d]`, openai.Tokenize("world")[0]), "the people of the", "stop", float64(openai.Tokenize("world")[0]), 5},
		{fmt.Sprintf(`"max_tokens":9,"stop_token_ids":[%d],"include_stop_str_in_output":true`, openai.Tokenize("world")[0]), "the people of the world", "stop", float64(openai.Tokenize("world")[0]), 5},
	} {
		for batch := 1; batch <= 3; batch++ {
			d := script(says)
			d.batch = batch
			w := ask(t, `{"prompt":"x",`+c.parameters+`}`, d)
			got := &w.Choices[0]
			if got.Text != c.text || got.FinishReason != c.reason || got.StopReason != c.stop || int(w.Usage.CompletionTokens) != c.tokens {
				t.Errorf("%s, %d at once: %q, %s, %v, %d tokens, want %q, %s, %v, %d", c.parameters, batch,
					got.Text, got.FinishReason, got.StopReason, w.Usage.CompletionTokens, c.text, c.reason, c.stop, c.tokens)
			}
			if early := c.tokens+batch <= 9 && c.reason == "stop"; early != (d.stopped.Load() == 1) {
				t.Errorf("%s, %d at once: %d requests stopped", c.parameters, batch, d.stopped.Load())
			}
			if text, reason := joinStream(t, `{"prompt":"x","stream":true,`+c.parameters+`}`, script(says)); text != c.text || reason != c.reason {
				t.Errorf("%s: the stream says %q, %s, want %q, %s", c.parameters, text, reason, c.text, c.reason)
			}
		}
	}
}

// joinStream returns the text and the finish reason of a stream.
func joinStream(t *testing.T, body string, target engine.Target) (text, reason string) {
	t.Helper()
	all, err := serve(t, openai.Completions, []byte(body), target)
	if err != nil {
		t.Fatal(err)
	}
	for e := range strings.SplitSeq(strings.TrimSpace(all), "\n\n") {
		if e == "data: [DONE]" {
			return text, reason
		}
		var w whole
		if err := json.Unmarshal([]byte(strings.TrimPrefix(e, "data: ")), &w); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		for _, c := range w.Choices {
			text, reason = text+c.Text, reason+c.FinishReason
		}
	}
	t.Fatalf("%q has no end", all)
	return "", ""
}

// The choices of several prompts are numbered prompt by prompt. Each choice has a separate seed. The same seeds
// produce the same choices.
func TestChoices(t *testing.T) {
	const body = `{"prompt":["the people","of"],"n":3,"max_tokens":4,"seed":7,"return_token_ids":true}`
	d := &drawing{}
	w := ask(t, body, d)
	if len(w.Choices) != 6 || d.asked.Load() != 6 {
		t.Fatalf("%d choices of %d requests, want 6", len(w.Choices), d.asked.Load())
	}
	texts := make(map[string]bool)
	for i, c := range w.Choices {
		if c.Index != i || len(strings.Fields(c.Text)) != 4 || len(c.TokenIDs) != 4 {
			t.Errorf("choice %d: %+v, want its index and 4 tokens", i, c)
		}
		texts[c.Text] = true
	}
	if len(texts) != 6 {
		t.Errorf("%d texts of 6 choices with seeds of their own", len(texts))
	}
	if u := w.Usage; u.PromptTokens != 3 || u.CompletionTokens != 24 || u.TotalTokens != 27 {
		t.Errorf("usage %+v, want each prompt once and all answers", u)
	}
	again := ask(t, body, &drawing{})
	for i := range again.Choices {
		if again.Choices[i].Text != w.Choices[i].Text {
			t.Errorf("choice %d: %q and then %q", i, w.Choices[i].Text, again.Choices[i].Text)
		}
	}
}

// Log probabilities are below 0. The first one of a position belongs to the token itself, and the following tokens
// are less probable. The probabilities of a position sum to less than 1. The texts of the tokens make up the text of
// the answer.
func TestLogProbs(t *testing.T) {
	for _, echo := range []bool{false, true} {
		w := ask(t, fmt.Sprintf(`{"prompt":"It is the é","max_tokens":20,"logprobs":5,"echo":%v}`, echo), &drawing{})
		c := w.Choices[0]
		want := 20
		if echo {
			want += len(openai.Tokenize("It is the é"))
		}
		if l := c.LogProbs; len(l.Tokens) != want || len(l.Probs) != want || len(l.Top) != want || len(l.TextOffset) != want {
			t.Fatalf("%d tokens, %d probabilities, %d lists, %d offsets, want %d", len(l.Tokens), len(l.Probs), len(l.Top), len(l.TextOffset), want)
		}
		if joined := strings.Join(c.LogProbs.Tokens, ""); joined != c.Text {
			t.Errorf("tokens %q of text %q", joined, c.Text)
		}
		for i, p := range c.LogProbs.Probs {
			if echo && i == 0 {
				if p != nil || c.LogProbs.Top[0] != nil {
					t.Errorf("the first token of a prompt has a probability")
				}
				continue
			}
			top := c.LogProbs.Top[i]
			if len(top) != 5 || top[c.LogProbs.Tokens[i]] != *p || *p >= 0 {
				t.Errorf("token %d: %v in %v, want it among five", i, *p, top)
			}
			if at := c.LogProbs.TextOffset[i]; !strings.HasPrefix(string([]rune(c.Text)[at:]), c.LogProbs.Tokens[i]) {
				t.Errorf("token %d, %q, is not at %d of %q", i, c.LogProbs.Tokens[i], at, c.Text)
			}
		}
	}
}

// If one of several choices fails, the remaining choices are stopped, and the error is the result of the answer.
func TestFailingChoice(t *testing.T) {
	broken := errors.New("broken")
	body := `{"model":"tiny","prompt":"x","n":4,"max_tokens":400}`
	rq, err := openai.Parse(openai.Completions, []byte(body), openai.Tokenize)
	if err != nil {
		t.Fatal(err)
	}
	if err := rq.Fit(512); err != nil {
		t.Fatal(err)
	}
	calls := make(chan int, 4)
	for i := range 4 {
		calls <- i
	}
	target := targetFunc(func(_ context.Context, rc cancel.Context, rq *engine.Request, _ map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
		if <-calls == 2 {
			return nil, broken
		}
		return func(yield func(*engine.Chunk, error) bool) {
			for yield(&engine.Chunk{TokenIDs: []uint32{1}}, nil) { // endless
				select {
				case <-rc.Killed():
					return
				default:
				}
			}
		}, nil
	})
	a := openai.NewAnswer(rq, "id", "m", time.Now(), time.Now())
	var got error
	for _, err := range a.Generate(context.Background(), cancel.New(""), target, nil) {
		got = err
	}
	if !errors.Is(got, broken) {
		t.Errorf("%v, want %v", got, broken)
	}
	// A consumer that stops early also ends all choices.
	for i := range 4 {
		calls <- i + 3
	}
	for range openai.NewAnswer(rq, "id", "m", time.Now(), time.Now()).Generate(context.Background(), cancel.New(""), target, nil) {
		break
	}
}

// An engine that ignores a stop delays the answer for a short time only.
func TestDeafEngine(t *testing.T) {
	target := targetFunc(func(_ context.Context, rc cancel.Context, _ *engine.Request, _ map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
		return func(yield func(*engine.Chunk, error) bool) {
			if yield(&engine.Chunk{TokenIDs: openai.Tokenize("the")}, nil) {
				<-rc.Killed()
			}
		}, nil
	})
	w := ask(t, `{"prompt":"x","max_tokens":9,"stop":"the"}`, target)
	if c := w.Choices[0]; c.FinishReason != "stop" || w.Usage.CompletionTokens != 1 {
		t.Errorf("%+v, %+v, want the end at the stop string", c, w.Usage)
	}
}

type targetFunc func(context.Context, cancel.Context, *engine.Request, map[string]string) (iter.Seq2[*engine.Chunk, error], error)

func (f targetFunc) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, h map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	return f(ctx, rc, rq, h)
}

// Ignored lists unknown keys. Ignored does not list null values and keys without an effect.
func TestIgnored(t *testing.T) {
	rq, err := openai.Parse(openai.Completions, []byte(`{"prompt":"x","zeta":1,"alpha":{},"user":"u","nothing":null,"skip_special_tokens":false}`), openai.Tokenize)
	if err != nil || fmt.Sprint(rq.Ignored) != "[alpha zeta]" {
		t.Errorf("%v, %v, want alpha and zeta", rq, err)
	}
}

// The tokenizer of the caller splits prompts into tokens. The tokenizer does not change the texts of tokens.
func TestTokenizer(t *testing.T) {
	letters := func(text string) (tokens []uint32) {
		for range text {
			tokens = append(tokens, 5)
		}
		return tokens
	}
	rq, err := openai.Parse(openai.Completions, []byte(`{"prompt":["the people","x"],"echo":true}`), letters)
	if err != nil || rq.PromptTokens() != 11 || rq.Prompts[0].Text != "the people" {
		t.Errorf("%+v, %v, want 11 tokens", rq, err)
	}
	if _, err := openai.Parse(openai.Completions, []byte(`{"prompt":"the people","echo":true,"logprobs":1}`), letters); err == nil || openai.ErrorOf(err).Param != "echo" {
		t.Errorf("%v, want a refusal of echo", err)
	}
}

// Without max_tokens, the engine decides the length of a chat answer. With ignore_eos, the limit is the remaining
// context.
func TestLengthOfChats(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"x"}]}`:                                          "<nil>",
		`{"messages":[{"role":"user","content":"x"}],"ignore_eos":true}`:                        "501",
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":7}`:                           "7",
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":7,"max_completion_tokens":8}`: "8",
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":512}`:                         "501",
	} {
		rq, err := openai.Parse(openai.Chat, []byte(body), openai.Tokenize)
		if err == nil {
			err = rq.Fit(512)
		}
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		got := "<nil>"
		if n := rq.EngineRequest(0).StopConditions.MaxTokens; n != nil {
			got = fmt.Sprint(*n)
		}
		if got != want {
			t.Errorf("%s: at most %s tokens, want %s", body, got, want)
		}
	}
}

// FuzzParse checks that every body that Parse accepts can be answered.
func FuzzParse(f *testing.F) {
	for _, r := range []string{`{"prompt":"a","n":2,"stop":["b"],"logprobs":2,"echo":true}`, `{"messages":[{"role":"user","content":"x"}],"logprobs":true}`, `{"prompt":[[1]],"seed":"1e5"}`, `{"n":`, `{"prompt":"a","stop_token_ids":["",null]}`} {
		f.Add([]byte(r), true)
		f.Add([]byte(r), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		kind := openai.Completions
		if chat {
			kind = openai.Chat
		}
		text, err := serve(t, kind, body, &drawing{})
		var refused *openai.Error
		switch {
		case err == nil && !strings.HasPrefix(text, "data: ") && !json.Valid([]byte(text)):
			t.Errorf("%q: %q is no JSON", body, text)
		case err != nil && (!errors.As(err, &refused) || !json.Valid(refused.AppendJSON(nil)) || strings.ContainsAny(refused.Parameter(), ".0123456789")):
			t.Errorf("%q: %v", body, err)
		}
	})
}
