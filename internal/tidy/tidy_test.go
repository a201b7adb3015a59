// Package tidy holds the project's files to the rules that a compiler does not
// know: imports point down, files and functions stay short, nothing is left
// half done.
package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/replay-llm/replay"
)

const (
	longFile     = 400 // lines; worth a word
	maxFile      = 500
	maxFunction  = 60
	maxParameter = 5
)

// source is one parsed Go file.
type source struct {
	path string // from the root
	test bool
	set  *token.FileSet
	file *ast.File
}

// sources parses all Go files.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, name := range files(t) {
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

// files lists the files of the project, by path from the root.
func files(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); base == ".git" || base == "testdata" || base == "bin" {
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

// layers lists the rooms from the lowest up. A package imports rooms below its
// own only; the deepest path that matches names its room.
func layers() [][]string {
	return [][]string{
		{"internal/invariant", "internal/decimal", "internal/script", "sim/blockhash", "live/cancel"},
		{"live/fault", "live/telemetry"},
		{"sim/prompt"},
		{"sim"},
		{"scheduler/timing"},
		{"scheduler"},
		{"scheduler/vllm", "scheduler/sglang", "scheduler/schedulertest"},
		{"router", "loadgen", "replay/collector", "replay/engineargs"},
		{"internal/golden", "replay/engines"},
		{"live/kvevents", "live/drt", "live/rendezvous"},
		{"live/engine"},
		{"live/kvroute", "live/conformance"},
		{"live/route"},
		{"replay/offline", "replay/online"},
		{"replay"},
		{"live/cluster", "live/frontend", "live/mocker"},
		{"internal/golden/command"},
		{"plan", "calibrate", "report"},
		{"live/queue"},
		{"cmd", "tools", "docs", "internal/tidy"},
	}
}

// strangers lists rooms that never run a simulation, although they stand above
// those that do: they see files and what the collector knows.
func strangers() map[string][]string {
	simulations := []string{"replay", "replay/offline", "replay/online"}
	return map[string][]string{"report": simulations, "calibrate": simulations}
}

// room is the layer and the name of a package's room.
func room(dir string) (int, string) {
	for d := dir; d != "."; d = path.Dir(d) {
		for level, names := range layers() {
			for _, name := range names {
				if name == d {
					return level, name
				}
			}
		}
	}
	return -1, ""
}

// Imports point down the list of layers and never up; rooms of one layer do not
// know each other.
func TestImportsPointDown(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		dir := path.Dir(s.path)
		level, name := room(dir)
		if level < 0 {
			if !seen[dir] {
				t.Errorf("%s is in no layer", dir)
			}
			seen[dir] = true
			continue
		}
		for _, i := range s.file.Imports {
			target, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			rel, ours := strings.CutPrefix(target, module+"/")
			if !ours {
				continue
			}
			below, other := room(rel)
			if other != name && below >= level {
				t.Errorf("%s imports %s, which is not below %s", s.path, rel, name)
			}
			if slices.Contains(strangers()[name], other) {
				t.Errorf("%s imports %s, and %s runs no simulation", s.path, rel, name)
			}
		}
	}
}

// doors says which room may use a library.
func doors() map[string][]string {
	return map[string][]string{
		"github.com/spf13/":                 {"cmd"},
		"github.com/schollz/progressbar":    {"cmd"},
		"github.com/cockroachdb/datadriven": {"scheduler", "router", "replay"}, // transcripts
		"github.com/goccy/go-yaml":          {"cmd"},
		"github.com/zeebo/xxh3":             {"sim/blockhash"},
		"github.com/klauspost/compress":     {"loadgen", "replay/collector", "internal/golden"},
		"github.com/goccy/go-json":          {"loadgen", "replay/collector"},
		"gonum.org/v1/gonum":                {"scheduler/timing", "loadgen", "calibrate"},
		"github.com/parquet-go/parquet-go":  {"report"},
		"golang.org/x/term":                 {"cmd"},
		"golang.org/x/text":                 {"loadgen"},
		"golang.org/x/sync":                 {"report", "live", "cmd"},
		"golang.org/x/sys":                  {"replay/online"},
		"github.com/nats-io/":               {"live/queue", "live/drt"},
		"go.etcd.io/etcd/":                  {"live/drt"},
		"go.uber.org/zap":                   {"live/drt"}, // etcd wants one, silent
		"github.com/google/uuid":            {"live/cancel"},
		"github.com/vmihailenco/msgpack":    {"live/kvevents"},
		"golang.org/x/net/netutil":          {"live/frontend"},
		"go.uber.org/goleak":                {"live", "replay"},
		"github.com/go-zeromq/zmq4":         {"live/kvevents"}, // another implementation to test against
		"go.opentelemetry.io/":              {"live/telemetry"},
		"go.opentelemetry.io/otel/sdk/":     {"live/engine"},                      // tests look at its spans
		"github.com/prometheus/":            {"live/telemetry", "live/drt/stack"}, // there to keep etcd's metrics out
		"google.golang.org/grpc":            {"live/drt", "live/telemetry"},
	}
}

// Every library has its door, and tests need none.
func TestLibrariesHaveDoors(t *testing.T) {
	for _, s := range sources(t) {
		for _, i := range s.file.Imports {
			target, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(target, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(target, module) {
				continue
			}
			if !opens(s.path, target) {
				t.Errorf("%s imports %s, which has its door elsewhere or none", s.path, target)
			}
		}
	}
}

func opens(file, library string) bool {
	for prefix, rooms := range doors() {
		if !strings.HasPrefix(library, prefix) {
			continue
		}
		for _, r := range rooms {
			if strings.HasPrefix(file, r+"/") {
				return true
			}
		}
	}
	return false
}

func TestLengths(t *testing.T) {
	for _, s := range sources(t) {
		lines := s.set.File(s.file.FileStart).LineCount()
		switch {
		case lines > maxFile:
			t.Errorf("%s has %d lines, want at most %d", s.path, lines, maxFile)
		case lines > longFile:
			t.Logf("%s has %d lines, better at most %d", s.path, lines, longFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.test {
				continue
			}
			from, to := s.set.Position(f.Pos()).Line, s.set.Position(f.End()).Line
			if to-from+1 > maxFunction {
				t.Errorf("%s:%d: %s has %d lines, want at most %d", s.path, from, f.Name.Name, to-from+1, maxFunction)
			}
			if n := f.Type.Params.NumFields(); n > maxParameter {
				t.Errorf("%s:%d: %s has %d parameters, want at most %d", s.path, from, f.Name.Name, n, maxParameter)
			}
		}
	}
}

// beforeMain lists the files that change what others do before main.
func beforeMain() []string {
	return []string{"live/drt/stack/etcd.go", "live/drt/stack/unregistered/unregistered.go"}
}

// Nothing happens before main, and no state outlives a run.
func TestNoPackageState(t *testing.T) {
	for _, s := range sources(t) {
		if slices.Contains(beforeMain(), s.path) {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: init, want no code before main", s.set.Position(d.Pos()))
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR && !s.test && !embeds(d) {
					checkVariables(t, &s, d)
				}
			}
		}
	}
}

// embeds says that a variable holds files, which Go has no constants for.
func embeds(d *ast.GenDecl) bool {
	return d.Doc != nil && strings.HasPrefix(d.Doc.List[len(d.Doc.List)-1].Text, "//go:embed ")
}

// checkVariables lets constants of a kind pass that Go has no constants for:
// errors to compare with and the blank.
func checkVariables(t *testing.T, s *source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			if name.Name != "_" && !strings.HasPrefix(strings.ToLower(name.Name), "err") {
				t.Errorf("%s: package-level variable %s", s.set.Position(name.Pos()), name.Name)
			}
		}
	}
}

// Exported names say what they are; methods may leave that to the interface.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Recv == nil && d.Doc == nil {
					t.Errorf("%s: %s has no comment", s.set.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if typ, ok := spec.(*ast.TypeSpec); ok && typ.Name.IsExported() && d.Doc == nil && typ.Doc == nil {
						t.Errorf("%s: %s has no comment", s.set.Position(typ.Pos()), typ.Name.Name)
					}
				}
			}
		}
	}
}

// Nothing is left half done, nothing points at one machine, and nothing needs a
// tracker to be understood.
func TestWords(t *testing.T) {
	rules := []struct {
		what    string
		pattern *regexp.Regexp
	}{
		{"unfinished work", regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)},
		{"a path of one machine", regexp.MustCompile(`(^|[\s"'(=])/(root|home|work|Users)/`)},
		{"a number in a tracker", regexp.MustCompile(`(?i)\b(issue|pull request|ticket) #?\d+|/(issues|pull)/\d+`)},
		{"an error that says no more than that it is one", regexp.MustCompile(`(Errorf|errors\.New)\("[^"]*[Ff]ailed to`)},
	}
	names := regexp.MustCompile(`(?i)(manager|helper|utils?|common|misc)(_test)?\.go$`)
	checked := 0
	for _, name := range files(t) {
		if names.MatchString(name) {
			t.Errorf("%s: a file is named after what is in it", name)
		}
		switch path.Ext(name) {
		case ".go", ".md", ".yml", ".yaml", ".sh", ".txt", "":
		default:
			continue
		}
		if strings.HasPrefix(name, "internal/tidy/") || path.Base(name) == "LICENSE" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		checked++
		for n, line := range strings.Split(string(text), "\n") {
			for _, rule := range rules {
				if m := rule.pattern.FindString(line); m != "" {
					t.Errorf("%s:%d: %q: %s", name, n+1, m, rule.what)
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("%d files checked, want all of them", checked)
	}
}
