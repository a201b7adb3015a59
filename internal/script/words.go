package script

import (
	"errors"
	"fmt"
	"strings"
)

// Command is a parsed command line.
type Command struct {
	Args  []string // starts with the name of the program
	Stdin string   // path of the file after <, or ""
}

// Words splits a command line into words like a shell: words are separated by blanks, except in quotes and after
// backslashes. The only supported redirection is < file.
func Words(line string) (Command, error) {
	var c Command
	redirect := false
	rest := strings.ReplaceAll(line, "\\\n", " ")
	for {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			break
		}
		if rest[0] == '<' {
			redirect, rest = true, rest[1:]
			continue
		}
		word, after, err := firstWord(rest)
		if err != nil {
			return c, fmt.Errorf("%s: %w", line, err)
		}
		rest = after
		if redirect {
			c.Stdin, redirect = word, false
			continue
		}
		c.Args = append(c.Args, word)
	}
	if len(c.Args) == 0 || redirect {
		return c, fmt.Errorf("%q: must be a command", line)
	}
	return c, nil
}

func firstWord(text string) (word, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t':
			return b.String(), text[i:], nil
		case '\\':
			if i++; i == len(text) {
				return "", "", errors.New("nothing after the last backslash")
			}
			b.WriteByte(text[i])
		case '\'', '"':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return "", "", fmt.Errorf("no second %c", c)
			}
			b.WriteString(text[i+1 : i+1+end])
			i += 1 + end
		case '|', '>', '&', ';', '`', '$', '*':
			return "", "", fmt.Errorf("%c needs a shell", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", nil
}
