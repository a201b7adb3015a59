package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/replay-llm/replay/replay/engineargs"
)

// corpus contains the known command lines of the checkout.
type corpus struct {
	lines [][]string // words after the program name
	keys  []string   // keys of engine arguments
}

// collectCorpus collects the command lines of transcripts and documents, and the keys of engine arguments.
func collectCorpus(root string) (*corpus, error) {
	c := &corpus{}
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") && path != root {
			return fs.SkipDir
		}
		if !slices.Contains([]string{".script", ".md", ".txtar", ".txt"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:\$ |! |> |\? )?(?:exec )?replay (.*)$`).FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			if words := splitWords(m[1]); words != nil && !seen[m[1]] {
				seen[m[1]] = true
				c.lines = append(c.lines, words)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range engineargs.Rows() {
		if object, _, isMember := strings.Cut(r.Key, "."); r.Key != "" && (!isMember || object == "sglang" || object == "trtllm") {
			c.keys = append(c.keys, r.Key)
		}
	}
	if len(c.lines) == 0 {
		return nil, fmt.Errorf("%s: no command lines in its documents", root)
	}
	return c, nil
}

// splitWords splits a line like a shell. splitWords returns nil if the line requires a shell or names files outside
// the working directory.
func splitWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, open := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case strings.ContainsRune("|<>;&$`\\(", r):
			if r == '|' || r == '>' || r == '<' { // the rest of the line belongs to the shell
				return endWords(words, word.String(), open)
			}
			return nil
		case r == ' ':
			if word.Len() > 0 || open {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		case r == '#' && word.Len() == 0:
			return endWords(words, "", false)
		default:
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil
	}
	return endWords(words, word.String(), open)
}

func endWords(words []string, last string, open bool) []string {
	if last != "" || open {
		words = append(words, last)
	}
	for _, w := range words {
		_, value, _ := strings.Cut(w, "=")
		if strings.HasPrefix(w, "/") || strings.HasPrefix(value, "/") || strings.Contains(w, "..") || strings.Contains(w, "://") {
			return nil
		}
	}
	return words
}
