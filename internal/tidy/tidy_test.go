// Package tidy checks rules that the compiler does not check: layers of imports, sizes of types and functions, names,
// comments, and references in comments and documents.
//
// Read tidy_test.go first. The files layers_test.go, libraries_test.go and registries_test.go restrict imports. The
// files style_test.go, sizes_test.go, contract_test.go, names_test.go and words_test.go restrict how code is written.
// The file references_test.go checks comments and documents. The file data_test.go checks optional data,
// workflows_test.go checks .github, and notice_test.go checks the origin of test data.
package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/replay-llm/replay"
)

// source is a parsed Go file.
type source struct {
	path string // path relative to the root of the repository
	test bool
	set  *token.FileSet
	file *ast.File
}

// dir returns the folder of s, relative to the root of the repository.
func (s *source) dir() string { return path.Dir(s.path) }

// imports returns the import paths of s.
func (s *source) imports(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, i := range s.file.Imports {
		target, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, target)
	}
	return all
}

// ours returns the packages of this module that s imports, relative to the root of the module.
func (s *source) ours(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, target := range s.imports(t) {
		if rel, ok := strings.CutPrefix(target, module+"/"); ok {
			all = append(all, rel)
		}
	}
	return all
}

// foreign reports whether the file belongs to another module, such as a linter of this module.
func (s *source) foreign() bool {
	return strings.HasPrefix(s.path, ".ci/") || strings.HasPrefix(s.path, "tools/hpaoracle/")
}

// at returns the file and line of n, for error messages.
func (s *source) at(n ast.Node) string {
	p := s.set.Position(n.Pos())
	return s.path + ":" + strconv.Itoa(p.Line)
}

// parseAll returns all parsed Go files.
func parseAll(t *testing.T) []source {
	t.Helper()
	parsed.once.Do(func() { parsed.sources = parseFiles(t) })
	return parsed.sources
}

// parsed caches the parsed Go files.
var parsed struct {
	once    sync.Once
	sources []source
}

func parseFiles(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, name := range listFiles(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{name, strings.HasSuffix(name, "_test.go"), set, f})
	}
	if len(all) < 30 {
		t.Fatalf("%d Go files under %s, want all of them", len(all), root)
	}
	return all
}

// listFiles returns the files of the repository except test data, relative to the root.
func listFiles(t *testing.T) []string {
	t.Helper()
	return walkFiles(t, ".git", "testdata", "bin")
}

// walkFiles returns the files of the repository, relative to the root. walkFiles skips folders with the given names.
func walkFiles(t *testing.T, without ...string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(without, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, name)
		all = append(all, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// readFile returns the text of a file of the repository.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
