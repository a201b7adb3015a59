package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// readFleet decodes a file of examples/fleet, and returns its text.
func readFleet(t *testing.T, name string, to any) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../examples/fleet", name))
	if err == nil {
		err = yaml.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(text)
}

// The eight servers of examples/fleet have the addresses that llm-d's router and Prometheus use. replay-live accepts
// the command lines of these servers, and the started servers answer. The routers are not started.
func TestFleetExample(t *testing.T) {
	var c struct {
		Services map[string]struct {
			Image    string
			Command  []string
			Networks struct {
				Fleet struct {
					Address string `yaml:"ipv4_address"`
				}
			}
		}
	}
	var endpoints struct {
		Endpoints []struct{ Name, Address, Port string }
	}
	var any any
	compose := readFleet(t, "compose.yaml", &c)
	readFleet(t, "llm-d/endpoints.yaml", &endpoints)
	scraped := readFleet(t, "prometheus.yaml", &any)
	for _, name := range []string{"llm-d/config.yaml", "llm-d/envoy.yaml", "github-actions.yaml"} {
		readFleet(t, name, &any)
	}
	if len(endpoints.Endpoints) != 8 {
		t.Fatalf("%d endpoints, want 8", len(endpoints.Endpoints))
	}
	for _, e := range endpoints.Endpoints {
		at := e.Name + ":" + e.Port
		if s := c.Services[e.Name]; s.Networks.Fleet.Address != e.Address || !strings.Contains(scraped, `"`+at+`"`) || !strings.Contains(compose, "http://"+at) {
			t.Errorf("%s: compose.yaml has %q, llm-d/endpoints.yaml %s, and Prometheus and vllm-router ask %s", e.Name, s.Networks.Fleet.Address, e.Address, at)
		}
	}
	args := commandHere(c.Services["vllm-1"].Command, "", "")
	_, urls := startFleet(t, 1, args...)
	if status, body := postJSON(t, urls[0]+"/v1/completions", `{"model":"tiny","prompt":"a","max_tokens":4}`); status != 200 || !strings.Contains(body, `"completion_tokens":4`) {
		t.Errorf("%d %s", status, body)
	}
}

// Every row of the table in the README of examples/fleet names tests that exist. The flag --fake-metrics, which the
// table excludes, is rejected.
func TestFleetTable(t *testing.T) {
	root, tests := os.DirFS("../../.."), map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || strings.HasPrefix(path, ".") && path != "."):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(root, "examples/fleet/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| --- | --- | --- | --- |\n")
	named, rows := regexp.MustCompile("`(Test\\w+)`"), 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		all := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if rows++; len(cells) != 4 || len(all) == 0 {
			t.Errorf("%s: %d cells and %d tests, want 4 cells, the last with a test", line, len(cells), len(all))
		}
		for _, m := range all {
			if !tests[m[1]] {
				t.Errorf("%s: there is no %s", line, m[1])
			}
		}
	}
	if rows < 15 {
		t.Errorf("%d rows, want 15", rows)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"vllm", "--port=0", "--fake-metrics={}"}, strings.NewReader(""), &out, &errs); code != 2 || !strings.Contains(errs.String(), "--fake-metrics") {
		t.Errorf("--fake-metrics: exit code %d, %s", code, &errs)
	}
}
