package tokenizer

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/replay-llm/replay/internal/excerpt"
)

// normalizer changes a text before it is split.
type normalizer func(string) string

// buildNormalizers returns the normalizers of a step.
func buildNormalizers(c *part) ([]normalizer, error) {
	one := func(n normalizer) ([]normalizer, error) { return []normalizer{n}, nil }
	switch c.Type {
	case "NFC":
		return one(norm.NFC.String)
	case "NFD":
		return one(norm.NFD.String)
	case "NFKC":
		return one(norm.NFKC.String)
	case "NFKD":
		return one(norm.NFKD.String)
	case "Lowercase":
		return one(toLower)
	case "Prepend":
		return one(func(s string) string { return c.Prepend + s })
	case "Replace":
		p, err := c.pattern()
		if err != nil {
			return nil, err
		}
		return one(func(s string) string { return p.replace(s, c.Content) })
	case "Strip":
		return one(c.strip)
	}
	return nil, excerpt.Errorf("normalizer is %q, must be NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip or Sequence", c.Type)
}

// toLower converts text to lower case. İ becomes two characters, but strings.ToLower replaces it by one.
func toLower(s string) string { return strings.ToLower(strings.ReplaceAll(s, "İ", "i\u0307")) }

func (p *pattern) replace(text, by string) string {
	var out strings.Builder
	p.each(text, func(part string, match bool) {
		if match {
			part = by
		}
		out.WriteString(part)
	})
	return out.String()
}

func (c *part) strip(s string) string {
	if c.StripLeft {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
	}
	if c.StripRight {
		s = strings.TrimRightFunc(s, unicode.IsSpace)
	}
	return s
}
