package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// source is the origin of a text for Vale: its file, and the line number of each line.
type source struct {
	kind  string // markdown, comments or texts
	name  string // the file of the project
	lines []int  // line number in the project for each line; nil: the same numbers
}

// line returns the line number in the project for line n of the text, from 1.
func (s source) line(n int) int {
	if s.lines == nil || n < 1 || n > len(s.lines) {
		return n
	}
	return s.lines[n-1]
}

// passage is a text with the line number of its begin.
type passage struct {
	line int
	text string
}

// writeTexts writes the prose of the project as Markdown files to dir, and returns the source of each file.
func writeTexts(dir string) (map[string]source, error) {
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.go")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	files := make(map[string]source)
	add := func(s source, text string) error {
		name := s.kind + "/" + strings.TrimSuffix(s.name, ".md") + "." + s.kind + ".md"
		files[name] = s
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, []byte(text), 0o644)
	}
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if filepath.Ext(name) == ".md" {
			if err := add(source{"markdown", name, nil}, string(text)); err != nil {
				return nil, err
			}
			continue
		}
		comments, texts, err := splitFile(name, text)
		if err != nil {
			return nil, err
		}
		for kind, all := range map[string][]passage{"comments": comments, "texts": texts} {
			if len(all) == 0 {
				continue
			}
			joined, lines := joinPassages(all)
			if err := add(source{kind, name, lines}, joined); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// splitFile returns the comments of a Go file and its strings of at least three words. For tests splitFile returns
// only comments.
func splitFile(name string, text []byte) (comments, texts []passage, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range file.Comments {
		comments = append(comments, passage{set.Position(g.Pos()).Line, g.Text()})
	}
	if strings.HasSuffix(name, "_test.go") {
		return comments, nil, nil
	}
	prose := regexp.MustCompile(`[A-Za-z]+,? [a-z]+,? [a-z]+`)
	ast.Inspect(file, func(n ast.Node) bool {
		if _, tag := n.(*ast.ImportSpec); tag {
			return false
		}
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if s, err := strconv.Unquote(literal.Value); err == nil && prose.MatchString(s) {
			texts = append(texts, passage{set.Position(literal.Pos()).Line, strings.ReplaceAll(s, "<", " ")})
		}
		return true
	})
	return comments, texts, nil
}

// joinPassages joins passages as paragraphs. joinPassages also returns the line number of each line.
func joinPassages(all []passage) (string, []int) {
	var b strings.Builder
	var lines []int
	for _, p := range all {
		n := p.line
		for line := range strings.SplitSeq(strings.TrimRight(p.text, "\n"), "\n") {
			b.WriteString(line + "\n")
			lines = append(lines, n)
			n++
		}
		b.WriteString("\n")
		lines = append(lines, p.line)
	}
	return b.String(), lines
}
