package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// expected has the tokens of texts, computed by the Hugging Face library tokenizers 0.23.3. The tokenizer files in
// testdata were trained on the documentation of this project.
type expected struct {
	Texts []string
	IDs   map[string][][]uint32
}

// Tokens equal those of the Hugging Face library. The files have small vocabularies and the settings of GPT-2, Llama
// 2 and 3, Qwen, DeepSeek, StarCoder, Mistral and Gemma. Another file has all rare settings.
func TestSameTokens(t *testing.T) {
	text, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var want expected
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if len(want.IDs) < 4 || len(want.Texts) < 150 {
		t.Fatalf("%d files and %d texts, want at least 4 and 150", len(want.IDs), len(want.Texts))
	}
	for name, ids := range want.IDs {
		tok, err := Load(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time from the cache
			for i, text := range want.Texts {
				if got := tok.Append(nil, text); !slices.Equal(got, ids[i]) {
					t.Errorf("%s: %q: %v, want %v", name, text, got, ids[i])
				}
			}
		}
	}
}

// Settings that this package does not support are errors.
func TestRefused(t *testing.T) {
	whole, err := os.ReadFile("testdata/gpt2.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, c := range []struct{ old, new, want string }{
		{`"type":"BPE"`, `"type":"Unigram"`, `model is "Unigram", must be BPE or WordLevel`},
		{`"dropout":null`, `"dropout":0.1`, "dropout is 0.1, must be none"},
		{`"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`, "continuing_subword_prefix or end_of_word_suffix is given"},
		{`"unk_token":null`, `"unk_token":"<nil>"`, `unk_token is "<nil>", must be one of vocab`},
		{`"normalizer":null`, `"normalizer":{"type":"Precompiled"}`, `normalizer is "Precompiled", must be NFC`},
		{`"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"UnicodeScripts"`, `pre_tokenizer is "UnicodeScripts", must be ByteLevel`},
		{`"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"Split"`, "Split has no pattern, expected Regex or String"},
		{`"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"Split","behavior":"Odd","pattern":{"String":" "}`, `behavior is "Odd", must be Isolated`},
		{`"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"a(?!b)"}`, "regex: error parsing regexp"},
		{`"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"[\\S]"}`, "regex: error parsing regexp"},
		{`"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"\\s+(?!\\S)|\\s+|a"}`, "at its end only"},
		{`"post_processor":{"type":"ByteLevel"`, `"post_processor":{"type":"BertProcessing"`, `post_processor is "BertProcessing", must be ByteLevel`},
		{`"single_word":false`, `"single_word":true`, "is a single_word, must be none"},
		{`"merges":[`, `"merges":[["a","zzz"],`, `merges[0] is "a" and "zzz", must be two tokens of vocab that make a third`},
		{`"merges":[`, `"merges":["ab",`, "must be two tokens with a blank between them"},
		{`{`, `[`, "must be a tokenizer.json"},
		{string(whole), `{"model":"x"}`, "must be a tokenizer.json"},
		{string(whole), `{}`, `model is "", must be BPE`},
	} {
		path := filepath.Join(dir, string(rune('a'+i))+".json")
		text := strings.Replace(string(whole), c.old, c.new, 1)
		if text == string(whole) {
			t.Fatalf("%s is not in the file", c.old)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is read")
	}
}

// Any text has tokens, and the same tokens when it is repeated.
func FuzzAppend(f *testing.F) {
	f.Add("llama3", "I'm  here\n")
	f.Add("gemma", "\xff\xfe a")
	f.Fuzz(func(t *testing.T, name, text string) {
		path := filepath.Join("testdata", filepath.Base(name)+".json")
		if name == "expected" {
			return
		}
		if _, err := os.Stat(path); err != nil {
			return
		}
		tok, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		first := tok.Append(nil, text)
		if again := tok.Append(nil, text); !slices.Equal(first, again) {
			t.Errorf("%q: %v, then %v", text, first, again)
		}
	})
}

// The time for a text of one long word is proportional to its length.
func TestLongWord(t *testing.T) {
	tok, err := Load("testdata/llama2.json")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tok.Append(nil, strings.Repeat("the quick brown fox ", 50_000))); n < 100_000 {
		t.Errorf("%d tokens of 200,000 letters", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	var want expected
	text, err := os.ReadFile("testdata/expected.json")
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		b.Fatal(err)
	}
	all := strings.Join(want.Texts, " ")
	for _, name := range []string{"llama3", "gemma"} {
		b.Run(name, func(b *testing.B) {
			tok, err := Load("testdata/" + name + ".json")
			if err != nil {
				b.Fatal(err)
			}
			var ids []uint32
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				ids = tok.Append(ids[:0], all)
			}
		})
	}
}

// A pending unk is added before the next known character, and so after byte tokens between them. The expected tokens
// are those of the library (0.23.3).
func TestUnknownWithBytes(t *testing.T) {
	dir := t.TempDir()
	for fuse, texts := range map[string]map[string][]uint32{
		"false": {"日é": {1, 2, 0}, "日éa": {1, 2, 0, 3}, "日日é": {0, 1, 2, 0}, "é日": {1, 2, 0}, "日é日": {1, 2, 0, 0}},
		"true":  {"日é": {1, 2, 0}, "日éa": {1, 2, 0, 3}, "日日é": {1, 2, 0}, "é日": {1, 2, 0}, "日é日": {1, 2, 0}},
	} {
		path := filepath.Join(dir, fuse+".json")
		file := `{"model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"fuse_unk":` + fuse +
			`,"vocab":{"<unk>":0,"<0xC3>":1,"<0xA9>":2,"a":3},"merges":[]}}`
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		tok, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range texts {
			if got := tok.Append(nil, text); !slices.Equal(got, want) {
				t.Errorf("fuse_unk %s: %q is %v, want %v", fuse, text, got, want)
			}
		}
	}
}
