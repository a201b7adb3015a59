package tables

import (
	"bytes"
	"strings"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// GuessColumns returns a value for --columns, guessed from the column names of an unknown format. GuessColumns
// returns "" if it finds no column for input or output.
func GuessColumns(names []string) string {
	list := []struct{ role, words, not string }{
		{"arrival", "arriv created start timestamp when datetime time date ts", "duration elapsed end finish first_token taken output response latency"},
		{"input", "prompt_tokens input_tokens prompt_len input_len isl context_tokens tokens_in n_in num_prompt prompt input context", "text cached output generat"},
		{"output", "completion_tokens output_tokens generated_tokens output_len osl tokens_out n_out num_gen completion generat output response answer decode", "text time"},
		{"session", "conversation session chat_id thread", "len tokens time"},
	}
	if len(names) == 1 && strings.ContainsAny(names[0], ";\t") {
		names = strings.FieldsFunc(names[0], func(r rune) bool { return r == ';' || r == '\t' })
	}
	var parts []string
	for _, r := range list {
		if name := guessColumn(names, r.words, r.not); name != "" {
			if strings.ContainsAny(name, `,"`) {
				name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
			}
			parts = append(parts, r.role+"="+name)
		}
	}
	text := strings.Join(parts, ",")
	if !strings.Contains(text, "input=") || !strings.Contains(text, "output=") || CheckColumns(text) != nil {
		return ""
	}
	return text
}

// guessColumn returns the first name that contains one of words and none of not. The first of words has the highest
// priority.
func guessColumn(names []string, words, not string) string {
	for word := range strings.FieldsSeq(words) {
		for _, name := range names {
			plain := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(name))
			if len(word) < 3 && plain != word || !strings.Contains(plain, word) {
				continue
			}
			fits := true
			for bad := range strings.FieldsSeq(not) {
				fits = fits && !strings.Contains(plain, bad)
			}
			if fits {
				return name
			}
		}
	}
	return ""
}

// MemberNames returns the names of all members of an object, with those of inner objects.
func MemberNames(o *scan.Object) []string {
	var names []string
	for _, m := range o.Members {
		if len(m.Value) == 0 || m.Value[0] != '{' {
			names = append(names, string(m.Key))
			continue
		}
		for _, sub := range MemberNames(o.OpenInner(string(m.Key))) {
			names = append(names, string(m.Key)+"."+sub)
		}
	}
	return names
}

// Lengths is the format of Mooncake rows without hash ids.
const Lengths = "mooncake-lengths"

// lengthKeys returns pairs of a role and a key of such rows.
func lengthKeys() [][2]string {
	return [][2]string{{"input", "input_length"}, {"input", "input_tokens"}, {"output", "output_length"}, {"output", "output_tokens"},
		{"arrival", "timestamp"}, {"arrival", "created_time"}, {"session", "session_id"}, {"class", "class"}, {"priority", "priority"}}
}

// IsLengths reports whether a record has lengths and no hash ids.
func IsLengths(o *scan.Object) bool {
	return o.Has("input_length", "input_tokens") && o.Has("output_length", "output_tokens") && !o.Has("hash_ids", "prompt", "text", "texts", "text_input", "messages", "payload", "turns", "delay", "delay_ms", "id")
}

// OpenLengths opens a file of such rows. The columns are the members of the first row.
func OpenLengths(s *formats.Stream) (formats.Reader, error) {
	head, _ := s.Lines.Peek()
	line, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte{'\n'})
	var o scan.Object
	if err := o.ParseText(line); err != nil {
		return nil, scan.RowError(s.Name, 1, err)
	}
	var parts []string
	seen := make(map[string]bool)
	for _, k := range lengthKeys() {
		if o.Has(k[1]) && !seen[k[0]] {
			seen[k[0]] = true
			parts = append(parts, k[0]+"="+k[1])
		}
	}
	if seen["arrival"] {
		parts = append(parts, "arrival_unit=ms")
	}
	s.Options.Columns = strings.Join(parts, ",")
	return OpenColumns(s)
}
