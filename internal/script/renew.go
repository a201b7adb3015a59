package script

import (
	"regexp"
	"strings"
)

// Renew updates the output that a page shows with the text of got. A line "..." matches any number of lines. Each
// other line is replaced with the next line of got that differs only in numbers and blanks. Renew reports false if
// got has no such line.
func Renew(shown, got string) (renewed string, ok bool) {
	if !strings.Contains(shown, "...") {
		return strings.TrimRight(got, "\n") + "\n" + shown[len(strings.TrimRight(shown, "\n"))+1:], true
	}
	rest := strings.Split(got, "\n")
	var out strings.Builder
	for line := range strings.SplitAfterSeq(shown, "\n") {
		text := strings.TrimRight(line, "\n")
		if text == "" || strings.Contains(text, "...") {
			out.WriteString(line)
			continue
		}
		i := 0
		for i < len(rest) && shapeOf(rest[i]) != shapeOf(text) {
			i++
		}
		if i == len(rest) {
			return shown, false
		}
		out.WriteString(strings.Replace(line, text, rest[i], 1))
		rest = rest[i+1:]
	}
	return out.String(), true
}

// shapeOf returns a line with all numbers replaced by 0 and all runs of blanks by one blank.
func shapeOf(line string) string {
	line = regexp.MustCompile(`[-+]?[0-9][0-9.,]*`).ReplaceAllString(line, "0")
	return strings.Join(strings.Fields(line), " ")
}
