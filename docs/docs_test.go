// Package docs compares the lists of the documentation with the program. cmd/replay/docs tests that its commands print
// what it shows.
package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/schema"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// part returns the text between two lines that start with from and to; to "" is the end of the text.
func part(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut("\n"+text, "\n"+from)
	if !ok {
		t.Fatalf("no line %q", from)
	}
	if to == "" {
		return rest
	}
	body, _, ok := strings.Cut(rest, "\n"+to)
	if !ok {
		t.Fatalf("no line %q after %q", to, from)
	}
	return body
}

// column returns the quoted words in column n, from 0, of the tables in text.
func column(text string, n int) []string {
	var all []string
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < n+3 {
			continue
		}
		if name, ok := strings.CutPrefix(strings.TrimSpace(cells[n+1]), "`"); ok {
			all = append(all, strings.TrimSuffix(name, "`"))
		}
	}
	return all
}

// same reports names that are in only one list.
func same(t *testing.T, page string, listed, there []string) {
	t.Helper()
	if len(there) == 0 {
		t.Fatalf("%s: nothing to compare with", page)
	}
	for _, name := range there {
		if !slices.Contains(listed, name) {
			t.Errorf("%s does not list %s", page, name)
		}
	}
	for i, name := range listed {
		if !slices.Contains(there, name) {
			t.Errorf("%s lists %s, which there is not", page, name)
		}
		if slices.Contains(listed[:i], name) {
			t.Errorf("%s lists %s twice", page, name)
		}
	}
}

// flags returns the flags in a section of the help.
func flags(t *testing.T, section string) []string {
	t.Helper()
	var names []string
	for _, g := range options.ListFlags() {
		if strings.HasPrefix(g.Title, section) {
			for _, name := range g.Names() {
				names = append(names, "--"+name)
			}
		}
	}
	return names
}

// `replay settings` lists every engine argument, except the arguments without effect, which docs/hardware.md lists.
// The same holds for the members of speculative_config. Every engine flag of the help is listed.
func TestEngineArguments(t *testing.T) {
	text := read(t, "hardware.md")
	listedFlags := []string{"--deployment"} // a file of these settings
	var keys, members []string
	for _, g := range options.GroupSettings() {
		for _, r := range g.Rows {
			if r.Flag != "" {
				listedFlags = append(listedFlags, "--"+r.Flag)
			}
			switch {
			case strings.Contains(g.Title, "speculative_config"):
				members = append(members, r.Key)
			case r.Key != "" && !strings.Contains(r.Key, ".") && !strings.Contains(g.Title, "members of") && g.Title != schema.NoEffect:
				keys = append(keys, r.Key)
			}
		}
	}
	same(t, "replay settings", listedFlags, flags(t, "Hardware and engines ("))
	keys = append(keys, quoted(t, text, "These keys are checked and have no effect", "is rejected.")...)
	same(t, "replay settings with hardware.md", keys, engineargs.Keys())

	// The error for an unknown member of speculative_config lists the valid members.
	_, err := engineargs.Parse([]byte(`{"speculative_config": {"num_speculative_tokens": 1, "acceptance_rate": 1, "unknown": 1}}`), engineargs.Options{})
	if err == nil {
		t.Fatal("speculative_config takes an unknown key")
	}
	_, known, _ := strings.Cut(err.Error(), "must be one of ")
	members = append(members, quoted(t, text, "`prompt_lookup_max`", "have no effect.")...)
	same(t, "replay settings with hardware.md", members, strings.Split(known, ", "))
}

// quoted returns the names in back quotes between two texts.
func quoted(t *testing.T, text, from, to string) []string {
	t.Helper()
	at := strings.LastIndex(text, from)
	if at < 0 {
		t.Fatalf("no %q", from)
	}
	body, _, ok := strings.Cut(text[at:], to)
	if !ok {
		t.Fatalf("no %q after %q", to, from)
	}
	var names []string
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(body, -1) {
		names = append(names, m[1])
	}
	return names
}

// The list of routers equals the registry.
func TestRouters(t *testing.T) {
	var there []string
	for _, p := range policy.All() {
		there = append(there, string(p.Name))
	}
	same(t, "router.md", column(part(t, read(t, "router.md"), "## Policies", "## The KV router"), 0), there)
}

// The key of each router flag in docs/router.md is its name with underscores. The router knows every key on the page:
// it rejects an invalid value for each.
func TestRouterSettings(t *testing.T) {
	var keys []string
	for _, name := range flags(t, "KV router (") {
		if name != "--router-config" {
			keys = append(keys, strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_"))
		}
	}
	without := part(t, read(t, "router.md"), "### Settings without effect", "## ")
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(without, -1) {
		if m[1] != "none" {
			keys = append(keys, m[1])
		}
	}
	if len(keys) < 20 {
		t.Fatalf("%d keys, want all", len(keys))
	}
	for _, key := range keys {
		if _, err := router.ParseConfig([]byte(`{"` + key + `":[]}`)); err == nil {
			t.Errorf("router.md lists %s, which the router does not know", key)
		}
	}
}

// tests returns the names of all tests, as package.Test.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		dir, err := filepath.Rel("..", filepath.Dir(path))
		for _, m := range declared.FindAllStringSubmatch(read(t, path), -1) {
			all[filepath.ToSlash(dir)+"."+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every test that docs/differences.md names exists.
func TestDifferences(t *testing.T) {
	text := read(t, "differences.md")
	there := tests(t)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z/]+\\.Test\\w+)`").FindAllStringSubmatch(text, -1) {
		named[m[1]] = true
	}
	if len(named) < 30 {
		t.Errorf("differences.md names %d tests, want more", len(named))
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !there[name] {
			t.Errorf("differences.md names %s, which there is not", name)
		}
	}
}

// docs/index.md, which is the navigation of the site, lists every page once.
func TestIndex(t *testing.T) {
	listed := make(map[string]int)
	for _, m := range regexp.MustCompile(`(?m)^ *- \[[^\]]+\]\(([^)#]+)\)`).FindAllStringSubmatch(read(t, "index.md"), -1) {
		listed[m[1]]++
	}
	err := filepath.WalkDir(".", func(name string, d os.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" && name != "index.md" && listed[filepath.ToSlash(name)] != 1 {
			t.Errorf("index.md lists %s %d times, want once", name, listed[filepath.ToSlash(name)])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
