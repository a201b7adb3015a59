package tokenizer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// pattern is a regular expression as tokenizers have them.
//
// They are written for a library that looks ahead, which Go's does not. Of all
// that it can, the files use one thing: blanks before a word without the last
// of them, \s+(?!\S)|\s+. This is a group here, and the last blank is released
// afterwards.
type pattern struct {
	re     *regexp.Regexp
	blanks int // the group; 0: none
}

const (
	blankClass = `\s\x0b\x{85}\p{Z}`
	wordClass  = `\p{L}\p{M}\p{Nd}\p{Pc}`
	ahead      = `\s+(?!\S)|\s+`
)

// parsePattern reads a regular expression.
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

// unicodeClasses writes out the classes that Go takes for those of ASCII.
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

// classOf is the class of an escape.
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
		return `\C` // no class of Go's has an escape like it: a complaint
	case c < 'a':
		return "[^" + name + "]"
	case inside:
		return name
	}
	return "[" + name + "]"
}

// each gives the matches in text and what is between them, in order.
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
		if start == end { // nothing was matched: continue after the next character
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

// find is the first match in text, -1 without one.
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
