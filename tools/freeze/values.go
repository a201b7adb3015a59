package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// values draws values of flags.
type values struct {
	given  map[string][]string // values in the corpus, by flag
	inputs []string
	keys   []string // keys of engine arguments
	dir    string   // folder of the inputs
}

// plainValues returns values of all types. No value is large, so that a command line is fast.
func plainValues() []string {
	return []string{
		"0", "1", "2", "3", "4", "7", "8", "16", "64", "100", "512", "1000", "4096", "-1", "1.5", "0.5", "0.9", "0.01", "1e2", "007", "+1", "1e400", "nan", "inf",
		"1s", "500ms", "2m", "1h", "10:30", "-5s", "1,2", "0.5,1", "1,1,1", "4:8", "0:10", "true", "false", "none", "auto", "all", "name", "x", "", " ", "ä",
		"{}", "[]", "null", "{\"a\": 1}", "@engine.json", "p99:ttft=1s", "ttft=200ms,itl=30ms", "at=5ms,workers=2", "h100", "llama-3.1-8b", "table", "json",
	}
}

// draw returns a value for a flag. If wrong is true, the value may be wrong.
func (v *values) draw(rng *rand.Rand, f *pflag.Flag, wrong bool) (value string, bare bool) {
	if f.NoOptDefVal != "" && (!wrong || rng.IntN(2) == 0) && rng.IntN(4) > 0 {
		return "", true
	}
	if strings.HasSuffix(f.Name, "engine-args") && rng.IntN(4) > 0 {
		return v.object(rng, wrong), false
	}
	var choices []string
	if c, ok := f.Value.(interface{ Choices() []string }); ok && rng.IntN(3) > 0 {
		choices = c.Choices()
	}
	_, general := poolOf(f.Name)
	if seen := append(slices.Clone(v.given[f.Name]), v.given[general]...); len(choices) == 0 && len(seen) > 0 && rng.IntN(3) > 0 {
		choices = seen
	}
	if kind, _ := pflag.UnquoteUsage(f); len(choices) == 0 && !wrong && slices.Contains([]string{"file", "FILE", "DIR", "directory"}, kind) {
		return pickFrom(rng, append(slices.Clone(v.inputs), "out/new")), false
	}
	if len(choices) == 0 || wrong {
		choices = slices.DeleteFunc(append(plainValues(), f.DefValue), func(text string) bool { return acceptsValue(f, text) == wrong })
	}
	if wrong && (rng.IntN(4) == 0 || len(choices) == 0) {
		choices = []string{misspellWord(rng, f.DefValue), "none.yaml", "directory", pickFrom(rng, v.inputs)}
	}
	if !wrong && rng.IntN(8) > 0 { // negative numbers are rarely valid
		if usual := slices.DeleteFunc(slices.Clone(choices), func(text string) bool { return text == "" || strings.ContainsAny(text[:1], "-ni0") }); len(usual) > 0 {
			choices = usual
		}
	}
	if len(choices) == 0 {
		choices = plainValues()
	}
	return pickFrom(rng, choices), false
}

// acceptsValue reports whether a flag accepts a value.
func acceptsValue(f *pflag.Flag, text string) (ok bool) {
	defer func() { ok = ok && recover() == nil }()
	return f.Value.Set(text) == nil
}

// object draws a JSON object of engine arguments.
func (v *values) object(rng *rand.Rand, wrong bool) string {
	members := []string{}
	for i := range 1 + rng.IntN(2) {
		key := pickFrom(rng, v.keys)
		if wrong && rng.IntN(3) == 0 {
			key = misspellWord(rng, key)
		}
		if engine, _, ok := strings.Cut(key, "."); ok && i == 0 {
			members = append(members, strconv.Quote("engine_type")+": "+strconv.Quote(engine))
		}
		value := pickFrom(rng, []string{"1", "2", "8", "64", "256", "4096", "true", "false", "0.5", "0"})
		if wrong {
			value = pickFrom(rng, []string{"-1", "\"x\"", "[]", "{}", "null", "1.5", "[1, 2]", "1e400", "true", "7"})
		}
		if object, member, ok := strings.Cut(key, "."); ok {
			key, value = object, "{"+strconv.Quote(member)+": "+value+"}"
		}
		members = append(members, strconv.Quote(key)+": "+value)
	}
	text := "{" + strings.Join(members, ", ") + "}"
	if wrong && rng.IntN(6) == 0 {
		text = text[:rng.IntN(len(text))]
	}
	return text
}

// changed returns the text of an input file with one change.
func (v *values) changed(rng *rand.Rand, path string) string {
	text, err := os.ReadFile(filepath.Join(v.dir, path))
	if err != nil {
		return ""
	}
	return changeText(rng, string(text))
}

// changeText makes one change in a text: it deletes or repeats a row, changes a number, or misspells a word.
func changeText(rng *rand.Rand, text string) string {
	rows := strings.SplitAfter(text, "\n")
	at := rng.IntN(len(rows))
	switch rng.IntN(4) {
	case 0:
		rows = slices.Delete(rows, at, at+1)
	case 1:
		rows = slices.Insert(rows, at, rows[at])
	case 2:
		rows[at] = replaceWord(rng, rows[at], "0123456789", func(string) string { return pickFrom(rng, []string{"0", "-1", "1.5", "x", "7"}) })
	case 3:
		rows[at] = replaceWord(rng, rows[at], "abcdefghijklmnopqrstuvwxyz_", func(w string) string { return misspellWord(rng, w) })
	}
	return strings.Join(rows, "")
}

// replaceWord replaces one of the words of a row that consist of the given letters.
func replaceWord(rng *rand.Rand, row, letters string, by func(string) string) string {
	words := strings.FieldsFunc(row, func(r rune) bool { return !strings.ContainsRune(letters, r) })
	if len(words) == 0 {
		return row
	}
	word := pickFrom(rng, words)
	return strings.Replace(row, word, by(word), 1)
}

// misspellWord changes one letter of a word.
func misspellWord(rng *rand.Rand, word string) string {
	if word == "" {
		return "x"
	}
	at := rng.IntN(len(word))
	switch rng.IntN(3) {
	case 0:
		return word[:at] + word[at+1:]
	case 1:
		return word[:at] + "x" + word[at:]
	}
	return word[:at] + word[at:at+1] + word[at:]
}
