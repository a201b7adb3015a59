package openai_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/openai"
	"github.com/replay-llm/replay/loadgen/tokenizer"
)

var tokenizers = flag.String("tokenizers", "", "count words with all tokenizer.json of this `directory`, whatever the files are called")

// english is a sample of English prose.
const english = `It was a bright morning when the committee finally agreed on the budget for next year. Several members had argued that the
projected costs of the new library were far too optimistic, and that a smaller building would serve the neighborhood just as well. "We
should not confuse ambition with recklessness," the treasurer said, adjusting her glasses. Nobody answered at first; then, from the back of
the room, a voice asked whether anyone had actually counted the visitors in 2019. There were 41,250 of them.`

// Real tokenizers count one token for each word of an answer. The count of real tokenizers for English prose is close
// to that of Tokenize.
func TestTokenizers(t *testing.T) {
	if *tokenizers == "" {
		t.Skip("skipped: only with -tokenizers")
	}
	files, err := filepath.Glob(filepath.Join(*tokenizers, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v in %s, %v", files, *tokenizers, err)
	}
	var all []uint32
	for token := uint32(1000); token < 2000; token++ {
		all = append(all, token)
	}
	text := openai.Detokenize(all)
	for _, file := range files {
		counter, err := tokenizer.Load(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if n := len(counter.AppendBare(nil, text)); n != len(all) {
			t.Errorf("%s: %d tokens, want %d", file, n, len(all))
		}
		prose := strings.ReplaceAll(english, "\n", " ")
		theirs, ours := len(counter.AppendBare(nil, prose)), len(openai.Tokenize(prose))
		t.Logf("%s: %d tokens of prose, here %d", filepath.Base(file), theirs, ours)
		if ours < theirs*3/4 || ours > theirs*2 {
			t.Errorf("%s: %d tokens of prose, here %d", file, theirs, ours)
		}
	}
}
