package tokenizer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// pattern is a regular expression of a tokenizer.
//
// Regular expressions of tokenizers can use lookahead, which package regexp does not support. In tokenizer files only
// one lookahead is frequent: \s+(?!\S)|\s+, which matches blanks before a word except for the last blank.
// parsePattern replaces this lookahead by a group, and find removes the last blank from the match.
type pattern struct {
	re     *regexp.Regexp
	blanks int // index of the group; 0 means none
}

const (
	blankClass = `\s\x0b\x{85}\p{Z}`
	wordClass  = `\p{L}\p{M}\p{Nd}\p{Pc}`
	ahead      = `\s+(?!\S)|\s+`
)

// parsePattern compiles a regular expression.
func parsePattern(text string) (*pattern, error) {
	p := &pattern{}
	if i := strings.Index(text, ahead); i >= 0 {
		if alone := (i == 0 || text[i-1] == '|') && i+len(ahead) == len(text); !alone {
			return nil, fmt.Errorf("regex is %s, must be %s at its end only", text, ahead)
		}
		p.blanks = 1
		text = text[:i] + `(?P<blanks>\s+)`
	}
	re, err := regexp.Compile(unicodeClasses(text))
	if err != nil {
		return nil, fmt.Errorf("regex: %w", err)
	}
	if p.blanks > 0 {
		p.blanks = re.SubexpIndex("blanks")
	}
	p.re = re
	return p, nil
}

// unicodeClasses replaces classes such as \d, which match only ASCII in Go, by Unicode classes.
func unicodeClasses(text string) string {
	var out strings.Builder
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			out.WriteString(classOf(text[i], inside))
		case c == '[' && !inside, c == ']' && inside:
			inside = !inside
			out.WriteByte(c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// classOf returns the replacement for an escape sequence.
func classOf(c byte, inside bool) string {
	name := ""
	switch c {
	case 's', 'S':
		name = blankClass
	case 'd', 'D':
		name = `\p{Nd}`
	case 'w', 'W':
		name = wordClass
	default:
		return `\` + string(c)
	}
	switch {
	case c < 'a' && inside:
		return `\C` // not supported in Go, so the compilation returns an error
	case c < 'a':
		return "[^" + name + "]"
	case inside:
		return name
	}
	return "[" + name + "]"
}

// each calls give for each match in text and for each part between matches, in order.
func (p *pattern) each(text string, give func(part string, match bool)) {
	for text != "" {
		start, end := p.find(text)
		if start < 0 {
			give(text, false)
			return
		}
		if start > 0 {
			give(text[:start], false)
		}
		if start == end { // empty match: continue after the next character
			_, n := utf8.DecodeRuneInString(text[end:])
			if n == 0 {
				return
			}
			give(text[end:end+n], false)
			text = text[end+n:]
			continue
		}
		give(text[start:end], true)
		text = text[end:]
	}
}

// find returns the first match in text. start is -1 if text has no match.
func (p *pattern) find(text string) (start, end int) {
	m := p.re.FindStringSubmatchIndex(text)
	if m == nil {
		return -1, -1
	}
	start, end = m[0], m[1]
	if p.blanks > 0 && m[2*p.blanks] >= 0 && end < len(text) {
		if _, n := utf8.DecodeLastRuneInString(text[start:end]); n < end-start {
			end -= n
		}
	}
	return start, end
}
