package tidy

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// passage is a comment of a Go file, or a document.
type passage struct {
	file string // path relative to the root of the repository
	line int    // number of the first line
	text string
	code bool // a comment of a Go file
}

// at returns the file and line of an offset in the passage.
func (p *passage) at(offset int) string {
	return p.file + ":" + strconv.Itoa(p.line+strings.Count(p.text[:offset], "\n"))
}

// listProse returns the comments of all Go files, and all documents without fenced code blocks.
func listProse(t *testing.T) []passage {
	t.Helper()
	var all []passage
	for _, s := range parseAll(t) {
		for _, group := range s.file.Comments {
			all = append(all, passage{s.path, s.set.Position(group.Pos()).Line, joinComment(group), true})
		}
	}
	for _, name := range listFiles(t) {
		if path.Ext(name) == ".md" {
			all = append(all, passage{name, 1, blankFences(readFile(t, name)), false})
		}
	}
	return all
}

// joinComment returns the lines of a comment without comment markers.
func joinComment(group *ast.CommentGroup) string {
	var lines []string
	for _, c := range group.List {
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), " "))
	}
	return strings.Join(lines, "\n")
}

// blankFences removes the text of fenced code blocks and keeps the number of lines.
func blankFences(text string) string {
	lines := strings.Split(text, "\n")
	inside := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || inside {
			lines[i] = ""
		}
		if fence {
			inside = !inside
		}
	}
	return strings.Join(lines, "\n")
}

// isThere reports whether a file or folder of the repository exists.
func isThere(name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

// readHeadings returns the headings of a document as text, and the anchors of these headings.
func readHeadings(t *testing.T, name string) (headings, anchors map[string]bool) {
	t.Helper()
	headings, anchors = make(map[string]bool), make(map[string]bool)
	drop := regexp.MustCompile("[^a-z0-9 _-]")
	for line := range strings.SplitSeq(blankFences(readFile(t, name)), "\n") {
		text, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		text = strings.TrimSpace(strings.ReplaceAll(text, "`", ""))
		headings[text] = true
		anchors[strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(text), ""), " ", "-")] = true
	}
	return headings, anchors
}

// readRules returns the numbers of the rules of a document. A rule is a list item or a table row that begins with its
// number.
func readRules(t *testing.T, name string) (numbers []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^[-|] \*\*([0-9]+\.[0-9]+)\*\* `).FindAllStringSubmatch(readFile(t, name), -1) {
		numbers = append(numbers, m[1])
	}
	return numbers
}

// The number of a rule in docs/rules is the number of its section and its position in the section, in order. All
// rules that a text refers to exist. Only headings with rules below them count as sections.
func TestRulesAreNumbered(t *testing.T) {
	names := regexp.MustCompile(`[Rr]ules? [0-9]+\.[0-9]+(?:(?:,| and| to) [0-9]+\.[0-9]+)*`)
	number := regexp.MustCompile(`[0-9]+\.[0-9]+`)
	all := 0
	for _, p := range listProse(t) {
		if path.Dir(p.file) != "docs/rules" || path.Base(p.file) == "README.md" {
			continue
		}
		rules := readRules(t, p.file)
		all += len(rules)
		var want []string
		section, place, begins := 0, 0, false
		for line := range strings.SplitSeq(p.text, "\n") {
			if strings.HasPrefix(line, "##") {
				begins = true
			}
			if !strings.HasPrefix(line, "- **") && !strings.HasPrefix(line, "| **") || !number.MatchString(line[:min(len(line), 10)]) {
				continue
			}
			if begins {
				section, place, begins = section+1, 0, false
			}
			place++
			want = append(want, fmt.Sprintf("%d.%d", section, place))
		}
		if !slices.Equal(rules, want) {
			t.Errorf("%s: rules are numbered %v, must be %v", p.file, rules, want)
		}
		for _, m := range names.FindAllString(strings.Join(strings.Fields(p.text), " "), -1) {
			for _, n := range number.FindAllString(m, -1) {
				if !slices.Contains(rules, n) {
					t.Errorf("%s: %s: there is no rule %s", p.file, m, n)
				}
			}
		}
	}
	if all < 300 {
		t.Errorf("docs/rules has %d rules, must have at least 300", all)
	}
}

// A comment refers to a document by its path from the root of the repository. A comment refers to a section by its
// heading after the path: docs/rules/harness.md "Scaling". Rules of docs/rules are referred to by number. All
// referenced documents, sections and rules exist. Numbers of chapters are not allowed as references.
func TestDocumentsExist(t *testing.T) {
	cite := regexp.MustCompile(`([A-Za-z0-9_./-]*[A-Za-z0-9_-]\.md)(\)?,?\s+"([^"\n]*(?:\n[^"\n]*)?)")?(#([a-z0-9_-]+))?( §?\s?[0-9]+(\.[0-9]+)+)?`)
	made := map[string]bool{"summary.md": true} // written by the program
	for _, p := range listProse(t) {
		for _, m := range cite.FindAllStringSubmatchIndex(p.text, -1) {
			part := func(i int) string {
				if m[2*i] < 0 {
					return ""
				}
				return p.text[m[2*i]:m[2*i+1]]
			}
			name := part(1)
			if m[0] > 0 && p.text[m[0]-1] == '[' || made[path.Base(name)] || strings.Contains(part(0), "://") {
				continue
			}
			target := name
			if !p.code {
				target = path.Join(path.Dir(p.file), name)
				if !isThere(target) {
					target = name
				}
			}
			if !isThere(target) {
				t.Errorf("%s: %s is not there", p.at(m[0]), name)
				continue
			}
			if n := strings.TrimSpace(part(6)); n != "" && !slices.Contains(readRules(t, target), n) {
				t.Errorf("%s: %q: must be the number of a rule or a heading in quotation marks", p.at(m[0]), part(0))
			}
			if part(3) == "" && part(5) == "" {
				continue
			}
			headings, anchors := readHeadings(t, target)
			if h := strings.Join(strings.Fields(part(3)), " "); h != "" && !headings[h] {
				t.Errorf("%s: %s has no heading %q", p.at(m[0]), name, h)
			}
			if a := part(5); a != "" && !anchors[a] {
				t.Errorf("%s: %s has no heading #%s", p.at(m[0]), name, a)
			}
		}
	}
}

// A link within a document refers to an existing heading of the document.
func TestAnchorsExist(t *testing.T) {
	link := regexp.MustCompile(`\]\(#([a-z0-9_-]+)\)`)
	for _, p := range listProse(t) {
		if p.code {
			continue
		}
		_, anchors := readHeadings(t, p.file)
		for _, m := range link.FindAllStringSubmatchIndex(p.text, -1) {
			if a := p.text[m[2]:m[3]]; !anchors[a] {
				t.Errorf("%s: there is no heading #%s", p.at(m[0]), a)
			}
		}
	}
}

// A Go file that a comment refers to exists in the same package, or at this path from the root of the repository. A
// Go file that a document refers to exists at its path, or has a name that some file of the repository has.
func TestFilesExist(t *testing.T) {
	names := make(map[string]bool)
	for _, name := range listFiles(t) {
		names[path.Base(name)] = true
	}
	file := regexp.MustCompile(`[A-Za-z0-9_./-]*[a-z0-9_]\.go\b`)
	for _, p := range listProse(t) {
		for _, m := range file.FindAllStringIndex(p.text, -1) {
			name := p.text[m[0]:m[1]]
			found := isThere(name) || isThere(path.Join(path.Dir(p.file), name))
			if !p.code && !strings.Contains(name, "/") {
				found = names[name]
			}
			if !found {
				t.Errorf("%s: %s is not there", p.at(m[0]), name)
			}
		}
	}
}

// Tests that a text refers to exist. If the reference includes a folder, the test is in this folder.
func TestTestsExist(t *testing.T) {
	all, in := make(map[string]bool), make(map[string]bool)
	for _, s := range parseAll(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				all[f.Name.Name] = true
				in[s.dir()+"."+f.Name.Name] = true
			}
		}
	}
	name := regexp.MustCompile(`([a-z][a-z0-9_/-]*\.)?\b((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`)
	for _, p := range listProse(t) {
		for _, m := range name.FindAllStringSubmatchIndex(p.text, -1) {
			folder, test := "", p.text[m[4]:m[5]]
			if m[2] >= 0 {
				folder = strings.TrimSuffix(p.text[m[2]:m[3]], ".")
			}
			switch {
			case all[test] && (folder == "" || in[folder+"."+test]):
			case folder == "" && begins(all, test): // a pattern for the flag -run
			default:
				t.Errorf("%s: %s is not there", p.at(m[0]), p.text[m[0]:m[1]])
			}
		}
	}
}

func begins(names map[string]bool, prefix string) bool {
	for n := range names {
		if strings.HasPrefix(n, prefix) {
			return true
		}
	}
	return false
}

// Folders in backquotes in documents exist. For a package with an exported name, the package must exist.
func TestFoldersExist(t *testing.T) {
	top := make(map[string]bool)
	for _, name := range listTop(t) {
		top[name] = true
	}
	quoted := regexp.MustCompile("`([a-z0-9_.]+(?:/[A-Za-z0-9_.-]+)+)`")
	for _, p := range listProse(t) {
		if p.code {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatchIndex(p.text, -1) {
			name := p.text[m[2]:m[3]]
			first, _, _ := strings.Cut(name, "/")
			if !top[first] || isThere(name) {
				continue
			}
			folder, _, ok := strings.Cut(path.Base(name), ".")
			if !ok || !isThere(path.Join(path.Dir(name), folder)) {
				t.Errorf("%s: %s is not there", p.at(m[0]), name)
			}
		}
	}
}

// Make targets that a text refers to exist in the Makefile.
func TestTargetsExist(t *testing.T) {
	targets := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(readFile(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	named := regexp.MustCompile("(?:`|\\t|    )make ([a-z][a-z0-9-]*)")
	for _, p := range listProse(t) {
		for _, m := range named.FindAllStringSubmatchIndex(p.text, -1) {
			if name := p.text[m[2]:m[3]]; !targets[name] {
				t.Errorf("%s: make %s is not in the Makefile", p.at(m[0]), name)
			}
		}
	}
}
