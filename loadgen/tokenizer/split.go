package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/excerpt"
)

// splitter appends the pieces of a piece to dst. first is true for the piece at the start of the text.
type splitter func(dst []string, piece string, first bool) []string

// gptPattern is the pattern of GPT-2. ByteLevel splits with gptPattern unless use_regex is false.
const gptPattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// buildSplitters returns the splitters of a step in pre_tokenizer.
func buildSplitters(c *part) ([]splitter, error) {
	switch c.Type {
	case "ByteLevel":
		return c.byteLevel()
	case "Split":
		p, err := c.pattern()
		if err != nil {
			return nil, err
		}
		return c.cutting(p, c.Behavior)
	case "Digits":
		p, err := parsePattern(`\p{N}`)
		if err != nil {
			return nil, err
		}
		behavior := "Contiguous"
		if c.IndividualDigits {
			behavior = "Isolated"
		}
		return c.cutting(p, behavior)
	case "Metaspace":
		return c.metaspace()
	case "WhitespaceSplit":
		return []splitter{func(dst []string, piece string, _ bool) []string { return append(dst, strings.Fields(piece)...) }}, nil
	}
	return nil, excerpt.Errorf("pre_tokenizer is %q, must be ByteLevel, Split, Digits, Metaspace, WhitespaceSplit or Sequence", c.Type)
}

// cutting returns a splitter at the matches of p.
func (c *part) cutting(p *pattern, behavior string) ([]splitter, error) {
	switch behavior {
	case "Isolated", "Removed", "MergedWithPrevious", "Contiguous":
	case "MergedWithNext":
		return []splitter{func(dst []string, piece string, _ bool) []string { return mergeNext(p, c.Invert, dst, piece) }}, nil
	default:
		return nil, excerpt.Errorf("behavior is %q, must be Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous", behavior)
	}
	return []splitter{func(dst []string, piece string, _ bool) []string {
		from, before := len(dst), false
		p.each(piece, func(part string, match bool) {
			match = match != c.Invert
			joined := behavior == "Contiguous" && match == before || behavior == "MergedWithPrevious" && match && !before && part != ""
			switch {
			case match && behavior == "Removed":
			case joined && len(dst) > from:
				dst[len(dst)-1] += part
			default:
				dst = append(dst, part)
			}
			before = match
		})
		return dst
	}}, nil
}

// mergeNext splits before matches. Of consecutive matches only the last is merged with the following text.
func mergeNext(p *pattern, invert bool, dst []string, piece string) []string {
	held := ""
	p.each(piece, func(part string, match bool) {
		switch {
		case match == invert:
			dst = append(dst, held+part)
			held = ""
		case held != "":
			dst = append(dst, held)
			held = part
		default:
			held = part
		}
	})
	if held != "" {
		dst = append(dst, held)
	}
	return dst
}

// metaspace returns a splitter that replaces blanks by the replacement and splits before it.
func (c *part) metaspace() ([]splitter, error) {
	scheme := c.PrependScheme
	if scheme == "" {
		if scheme = "always"; c.AddPrefixSpace != nil && !*c.AddPrefixSpace {
			scheme = "never"
		}
	}
	if scheme != "always" && scheme != "first" && scheme != "never" || c.Replacement == "" {
		return nil, excerpt.Errorf("prepend_scheme is %q and replacement %q, must be always, first or never, and a character", scheme, c.Replacement)
	}
	mark := c.Replacement
	at, err := compileLiteral(mark)
	if err != nil {
		return nil, err
	}
	return []splitter{func(dst []string, piece string, first bool) []string {
		piece = strings.ReplaceAll(piece, " ", mark)
		if (scheme == "always" || scheme == "first" && first) && !strings.HasPrefix(piece, mark) {
			piece = mark + piece
		}
		if c.Split != nil && !*c.Split {
			return append(dst, piece)
		}
		return mergeNext(at, false, dst, piece)
	}}, nil
}

// byteLevel returns splitters that replace each byte by a visible character.
func (c *part) byteLevel() ([]splitter, error) {
	var all []splitter
	if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
		all = append(all, func(dst []string, piece string, _ bool) []string {
			if !strings.HasPrefix(piece, " ") {
				piece = " " + piece
			}
			return append(dst, piece)
		})
	}
	if c.UseRegex == nil || *c.UseRegex {
		p, err := parsePattern(gptPattern)
		if err != nil {
			return nil, err
		}
		cut, err := c.cutting(p, "Isolated")
		if err != nil {
			return nil, err
		}
		all = append(all, cut...)
	}
	letters := byteLetters()
	return append(all, func(dst []string, piece string, _ bool) []string {
		out := make([]byte, 0, 2*len(piece))
		for i := range len(piece) {
			out = utf8.AppendRune(out, letters[piece[i]])
		}
		return append(dst, string(out))
	}), nil
}

// byteLetters returns the characters for all bytes. Visible characters stand for themselves, and other bytes become
// characters from 256 on.
func byteLetters() (letters [256]rune) {
	next := rune(256)
	for b := range letters {
		if r := rune(b); r >= '!' && r <= '~' || r >= '¡' && r <= '¬' || r >= '®' && r <= 'ÿ' {
			letters[b] = r
			continue
		}
		letters[b] = next
		next++
	}
	return letters
}
