package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/replay-llm/replay/tools/stopwatch"
)

// known describes a kind of file.
type known struct {
	files []string // file patterns, relative to the repository
	wrong []string // files that the schema and the program reject
	use   []string // command that reads a file, with the placeholder FILE
}

// listKnown returns the kinds of files by the name of their schema.
func listKnown() map[string]known {
	const files, traces = "cmd/replay/testdata/files/", "cmd/replay/testdata/files/requests.jsonl"
	replay := func(flags ...string) []string {
		return append([]string{"trace", traces, "--trace-block-size", "64"}, flags...)
	}
	return map[string]known{
		"deployment": {[]string{files + "h100.yaml", files + "h100x4.yaml", files + "short.yaml", files + "mix/*.yaml"}, []string{files + "engine/deployment.yaml"}, replay("--deployment", "FILE")},
		"config":     {[]string{files + "run.yaml", files + "h100.yaml", files + "fitted.yaml"}, []string{files + "unknown.yaml", files + "list.yaml", files + "engine/config.yaml"}, replay("--config", "FILE")},
		"grid":       {[]string{files + "grid.yaml", "examples/scale/grid.yaml"}, nil, []string{"sweep", "FILE"}},
		"autoscaler": {[]string{"testdata/scaling/*.yaml", "examples/scaler-process/*/*.yaml", files + "policy/scaler.yaml"}, nil, replay("--autoscale", "FILE")},
		"policy":     {[]string{"testdata/policies/cache-first.yaml", "testdata/policies/long-apart.yaml", "examples/policy-process/*/policy.yaml", "internal/cmd/files/policies/*.yaml", files + "policy/mine.yaml", files + "policy/cost.yaml"}, nil, replay("--router-policy", "FILE")},
		"admission":  {[]string{"testdata/policies/shed*.yaml", files + "policy/shed.yaml"}, nil, replay("--admission", "FILE")},
		"faults":     {[]string{"testdata/faults/*.yaml", files + "dies.yaml"}, nil, replay("--faults", "FILE")},
		"scale":      {[]string{files + "scale.yaml", files + "pools.yaml"}, []string{files + "misspelt.yaml", files + "nolist.yaml", files + "soon.yaml", files + "none.yaml"}, replay("--scale", "FILE")},
		"classes":    {[]string{"testdata/classes/*.yaml", files + "classes.yaml", files + "longfirst.yaml", files + "shortfirst.yaml"}, nil, replay("--classes", "FILE")},
		"budgets":    {[]string{files + "budgets.yaml", files + "chat-budgets.yaml"}, nil, []string{"check", "FILE"}},
	}
}

// checker checks files with their schemas and with the program.
type checker struct {
	program string
	schemas map[string]*jsonschema.Schema
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	t.Chdir("../..")
	c := &checker{filepath.Join(t.TempDir(), "replay"), map[string]*jsonschema.Schema{}}
	if err := stopwatch.Build(context.Background(), c.program, "./cmd/replay"); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for name := range listKnown() {
		text, err := printSchema(context.Background(), c.program, name)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := compiler.AddResource(name+".json", document); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.schemas[name], err = compiler.Compile(name + ".json"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return c
}

// validate returns the error of the schema of a kind for a YAML text.
func (c *checker) validate(t *testing.T, kind string, text []byte) error {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil
		}
		as, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(as))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.schemas[kind].Validate(instance); err != nil {
			return err
		}
	}
}

// refuses reports whether the program rejects a file, and returns its output.
func (c *checker) refuses(path string, use []string) (string, bool) {
	args := slices.Clone(use)
	args[slices.Index(args, "FILE")] = path
	cmd := exec.Command(c.program, args...)
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}

// TestFilesFitSchemas checks that every file of a kind matches its schema. If the file has an unknown key, the schema
// and the program reject it.
func TestFilesFitSchemas(t *testing.T) {
	c := newChecker(t)
	for kind, k := range listKnown() {
		n := 0
		for _, pattern := range k.files {
			paths, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				n++
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.validate(t, kind, text); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				wrong := spoil(text)
				spoilt := filepath.Join(t.TempDir(), "spoilt.yaml")
				if err := os.WriteFile(spoilt, wrong, 0o644); err != nil {
					t.Fatal(err)
				}
				if c.validate(t, kind, wrong) == nil {
					t.Errorf("%s: the schema of %s accepts a key that is not known", path, kind)
				}
				if text, is := c.refuses(spoilt, k.use); !is || !strings.Contains(text, "no_such_key") {
					t.Errorf("%s: the program accepts a key that is not known: %s", path, text)
				}
			}
		}
		if n == 0 {
			t.Errorf("%s: no files", kind)
		}
	}
}

// spoil adds an unknown key to a file. If the file is a list, it adds the key to the first entry.
func spoil(text []byte) []byte {
	var lines []string
	done := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" || done {
			lines = append(lines, line)
			continue
		}
		done = true
		switch {
		case strings.HasPrefix(line, "- {"):
			lines = append(lines, "- {no_such_key: 1, "+line[3:])
		case strings.HasPrefix(line, "- "):
			lines = append(lines, "- no_such_key: 1\n", "  "+line[2:])
		default:
			lines = append(lines, "no_such_key: 1\n", line)
		}
	}
	return []byte(strings.Join(lines, ""))
}

// TestSchemasRefuse checks that the schemas reject the files that the program rejects because of a key or a value.
func TestSchemasRefuse(t *testing.T) {
	c := newChecker(t)
	for kind, k := range listKnown() {
		for _, path := range k.wrong {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if c.validate(t, kind, text) == nil {
				t.Errorf("%s: the schema of %s accepts it", path, kind)
			}
			if text, is := c.refuses(path, k.use); !is {
				t.Errorf("%s: the program accepts it: %s", path, text)
			}
		}
	}
}

// TestAllFilesAreKnown checks that every YAML file of examples and testdata has a schema or belongs to a different
// program.
func TestAllFilesAreKnown(t *testing.T) {
	t.Chdir("../..")
	others := []string{"examples/fleet/", "examples/stack/", "examples/scale/argo.yaml", "examples/scale/kubernetes.yaml", "testdata/policies/llm-d-322.yaml"}
	var all []string
	for _, k := range listKnown() {
		for _, pattern := range k.files {
			paths, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, paths...)
		}
	}
	for _, root := range []string{"examples", "testdata"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".yaml") && !slices.Contains(all, path) && !slices.ContainsFunc(others, func(o string) bool { return strings.HasPrefix(path, o) }) {
				t.Errorf("%s has no schema", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestExamplesNameSchemas checks that each YAML file of examples names an existing schema, and that the schema is up
// to date.
func TestExamplesNameSchemas(t *testing.T) {
	c := newChecker(t)
	for kind, k := range listKnown() {
		for _, pattern := range k.files {
			if !strings.HasPrefix(pattern, "examples/") {
				continue
			}
			paths, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				first, _, _ := strings.Cut(string(text), "\n")
				name, ok := strings.CutPrefix(first, "# yaml-language-server: $schema=")
				if !ok || filepath.Base(name) != kind+".json" {
					t.Errorf("%s: the first line is %q, must name the schema of %s", path, first, kind)
					continue
				}
				kept, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				if printed, err := printSchema(context.Background(), c.program, kind); err != nil || !bytes.Equal(kept, printed) {
					t.Errorf("%s: %s is not what the program prints: go generate ./tools/schemas", path, name)
				}
			}
		}
	}
}
