package script

import (
	"regexp"
	"strings"
)

// Block is a fenced block of shell commands in a Markdown document.
type Block struct {
	Line  int // number of the first line after the fence
	Cases []Case
}

// Blocks returns the fenced blocks of text with the language sh, shell, bash or console. In a block with a line that
// begins with "$ ", only such lines are commands. In all other blocks every line is a command.
func Blocks(text string) []Block {
	var blocks []Block
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		indent := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
		language, fenced := strings.CutPrefix(strings.TrimSpace(lines[i]), "```")
		if !fenced {
			continue
		}
		start := i + 1
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			lines[i] = lines[i][min(indent, len(lines[i])-1):]
		}
		switch language {
		case "sh", "shell", "bash", "console":
			blocks = append(blocks, Block{start + 1, blockCases(lines[start:min(i, len(lines))], start+1)})
		}
	}
	return blocks
}

func blockCases(lines []string, first int) []Case {
	transcript := false
	for _, line := range lines {
		transcript = transcript || strings.HasPrefix(line, "$ ")
	}
	var cases []Case
	for i := 0; i < len(lines); {
		switch line := lines[i]; {
		case strings.HasPrefix(line, "$ ") || (!transcript && strings.TrimSpace(line) != "" && line[0] != '#'):
			c := Case{Line: first + i}
			c.Command, i = parseCommand(lines, i)
			cases = append(cases, c)
		default:
			if transcript && len(cases) > 0 {
				cases[len(cases)-1].Output += line
			}
			i++
		}
	}
	return cases
}

// Matches reports whether got matches want. A line "..." of want matches any number of lines, and "..." within a line
// matches any text. Blanks at the ends of lines are ignored.
func Matches(want, got string) bool {
	pattern := "^"
	for line := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		if strings.TrimSpace(line) == "..." {
			pattern += `(.*\n)*`
			continue
		}
		text := regexp.QuoteMeta(strings.TrimRight(line, " "))
		pattern += strings.ReplaceAll(text, `\.\.\.`, ".*") + " *\n"
	}
	return regexp.MustCompile(pattern + "$").MatchString(strings.TrimSpace(got) + "\n")
}
