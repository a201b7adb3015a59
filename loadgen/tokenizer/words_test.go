package tokenizer

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A text of n words from Words, in any order, has n tokens between the tokens before and after each text.
func TestWordsAreTokens(t *testing.T) {
	level := filepath.Join(t.TempDir(), "level.json")
	if err := os.WriteFile(level, []byte(`{"model":{"type":"WordLevel","vocab":{"t0":0,"t1":1,"t2":2,"<unk>":3},"unk_token":"<unk>"},"pre_tokenizer":{"type":"WhitespaceSplit"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for path, least := range map[string]int{level: 3, "testdata/llama3.json": 20, "testdata/llama2.json": 20, "testdata/gpt2.json": 20, "testdata/qwen.json": 20} {
		tok, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		words := tok.Words(2000)
		if len(words) < least {
			t.Errorf("%s: %d words, want %d or more", path, len(words), least)
			continue
		}
		var text []string
		for range 500 {
			text = append(text, words[random.IntN(len(words))])
		}
		head, tail := tok.Around()
		if n := len(tok.Append(nil, strings.Join(text, " "))); n != head+500+tail {
			t.Errorf("%s: %d tokens of 500 words, %d before and %d behind", path, n, head, tail)
		}
	}
	tok, err := Load(level)
	if err != nil {
		t.Fatal(err)
	}
	if ids := tok.Append(nil, "t2  t0\nodd"); len(ids) != 3 || ids[0] != 2 || ids[2] != 3 {
		t.Errorf("%v, want t2, t0 and unknown", ids)
	}
	if words := tok.Words(2); len(words) != 2 {
		t.Errorf("%v, want the first two", words)
	}
}
