package loadgen

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLooksAgentic(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{`{"num_turns":0,"input_prompt_length":9}`, true},
		{`{"model":{"a":[1,"}"]},"tool_call_latency":[]}`, true},
		{"\n \t\n\u2003\n  {\"num_turns\" : 1}\n{\"timestamp\":0}", true},
		{`{"timestamp":0,"num_turns":1}`, false},
		{"{\"hash_ids\":[1]}\n{\"num_turns\":1}", false},
		{`["a",0,null,5,5,[1]]`, false},
		{`{"model":"x"}`, false},
		{`{"model":{"num_turns":1}}`, false},
		{`{"model":"num_turns`, false},
		{`{"num_turns`, false},
		{"{\"\xff\":1,\"\xfe", false},
		{`{}`, false},
		{"", false},
		{"\n\n", false},
	} {
		got, r := LooksAgentic(iotest.OneByteReader(strings.NewReader(c.text)))
		if got != c.want {
			t.Errorf("%q looks agentic: %v, want %v", c.text, got, c.want)
		}
		if all, err := io.ReadAll(r); string(all) != c.text || err != nil {
			t.Errorf("%q reads as %q after a look, %v", c.text, all, err)
		}
	}
}

// A line longer than what is looked at is known by its beginning, and a reader
// that fails does so after the look as it would have before.
func TestLooksAgenticAtTheHead(t *testing.T) {
	long := `{"num_turns":1,"x":"` + strings.Repeat("y", 2*readBuffer) + `"}`
	broken := errors.New("broken")
	got, r := LooksAgentic(io.MultiReader(strings.NewReader(long), iotest.ErrReader(broken)))
	if all, err := io.ReadAll(r); !got || string(all) != long || !errors.Is(err, broken) {
		t.Errorf("%v, %d bytes, %v; want %d bytes and %v", got, len(all), err, len(long), broken)
	}
	if got, _ := LooksAgentic(strings.NewReader(strings.Repeat("\n", readBuffer) + long)); got {
		t.Error("a line after much white space is looked at")
	}
}

func FuzzLooksAgentic(f *testing.F) {
	for _, text := range []string{`{"num_turns":1}`, `{"a":[{}],"hash_ids":[]}`, "\n{", "[1", "{\"\\ud8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, r := LooksAgentic(strings.NewReader(text))
		if all, err := io.ReadAll(r); string(all) != text || err != nil {
			t.Errorf("%q reads as %q, %v", text, all, err)
		}
	})
}
