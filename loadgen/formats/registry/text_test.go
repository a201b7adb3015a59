package registry

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

const smallTokenizer = "../../tokenizer/testdata/llama3.json"

// records returns all requests in a text.
func records(t *testing.T, text string, o formats.Options) (*formats.Stream, []formats.Record) {
	t.Helper()
	s, err := NewStream(strings.NewReader(text), "f", o)
	if err != nil {
		t.Fatal(err)
	}
	var all []formats.Record
	for {
		var r formats.Record
		err := s.Next(&r)
		if err == io.EOF {
			return s, all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Clone())
	}
}

// With a tokenizer, lengths are numbers of tokens. Texts share a block exactly if they have the same tokens up to the
// end of the block.
func TestTextsInTokens(t *testing.T) {
	o := formats.Options{TraceBlock: 4, LeftOpen: formats.LeftOpen{Tokenizer: smallTokenizer, OutputTokens: 5}}
	rows := `{"prompt":"1 2 3 4 5"}
{"prompt":"1 2 3 4 6"}
{"prompt":"1 9 3 4 5"}
`
	s, all := records(t, rows, o)
	if s.Approximate || len(all) != 3 {
		t.Fatalf("approximate: %v, %d requests", s.Approximate, len(all))
	}
	// Each prompt has a start token, the token "1", and two tokens for each further number: " " and a digit.
	for i, r := range all {
		if r.Input != 10 || len(r.IDs) != 2 || r.Output != 5 || r.Private {
			t.Errorf("request %d: %d tokens in %d full blocks, %d out; want 10, 2 and 5", i, r.Input, len(r.IDs), r.Output)
		}
	}
	if !slices.Equal(all[0].IDs, all[1].IDs) || all[0].IDs[0] == all[2].IDs[0] || all[0].IDs[1] == all[2].IDs[1] {
		t.Errorf("ids %v, %v, %v; want the first two alike and the third unlike", all[0].IDs, all[1].IDs, all[2].IDs)
	}
	secret := o
	secret.Key = []byte(strings.Repeat("k", 32))
	if _, other := records(t, rows, secret); other[0].IDs[0] == all[0].IDs[0] {
		t.Error("ids are the same with another key")
	}
}

// Answers of GenAI-Perf are counted in tokens. Without a tokenizer their pieces are counted, and there is a warning.
func TestAnswersInTokens(t *testing.T) {
	event := func(text string) string {
		return `{"response":"data: {\"choices\":[{\"delta\":{\"content\":\"` + text + `\"}}]}\n\n"}`
	}
	file := `{"experiments":[{"requests":[{"timestamp":5,"request_inputs":{"payload":"{\"prompt\":\"1 2\"}"},` +
		`"response_timestamps":[6,7],"response_outputs":[` + event("1 2") + `,` + event(" 3") + `,{"response":"data: [DONE]\n\n"}]}]}]}`
	var told []string
	o := formats.Options{LeftOpen: formats.LeftOpen{Tokenizer: smallTokenizer}, Warn: func(text string) { told = append(told, text) }}
	if _, all := records(t, file, o); len(all) != 1 || all[0].Output != 5 || all[0].Input != 4 || len(told) != 0 {
		t.Errorf("%+v, told %q; want 4 tokens in and 5 out", all, told)
	}
	o.LeftOpen = formats.LeftOpen{TokensPerByte: 1}
	if _, all := records(t, file, o); len(all) != 1 || all[0].Output != 2 || len(told) != 1 {
		t.Errorf("%+v, told %q; want 2 pieces, and a word on it", all, told)
	}
}

// A missing tokenizer file is rejected. So is a tokenizer for a trace without text.
func TestTokenizerRefused(t *testing.T) {
	for _, c := range []struct {
		text, want string
		o          formats.Options
	}{
		{`{"prompt":"a"}`, "none.json: no such file", formats.Options{LeftOpen: formats.LeftOpen{Tokenizer: filepath.Join(t.TempDir(), "none.json")}}},
		{`{"prompt":"a"}`, "must be one of them", formats.Options{LeftOpen: formats.LeftOpen{Tokenizer: smallTokenizer, TokensPerByte: 1}}},
		{moon, "in which a tokenizer changes nothing", formats.Options{Strict: true, LeftOpen: formats.LeftOpen{Tokenizer: smallTokenizer}}},
	} {
		if _, err := NewStream(strings.NewReader(c.text), "f", c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
