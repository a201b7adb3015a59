package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay/collector"
)

// makeFiles makes a folder with the given files.
func makeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Links to pages lead to their path on the site. Links to other files lead to the repository. Links in examples do
// not change.
func TestRewriteLinks(t *testing.T) {
	s := &site{root: makeFiles(t, map[string]string{
		"docs/a.md": "", "docs/rules/README.md": "", "docs/rules/b.md": "", "docs/p.svg": "", "ARCHITECTURE.md": "", "CHANGELOG.md": "", "CONTRIBUTING.md": "",
		"examples/policy/main.go": "", "README.md": "",
	})}
	if err := s.findPages(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, text, want string }{
		{"docs/a.md", "[b](rules/b.md#x) and [c](#y)", "[b](rules/b.md#x) and [c](#y)"},
		{"docs/rules/b.md", "[a](../a.md)", "[a](../a.md)"},
		{"docs/rules/b.md", "![p](../p.svg)", "![p](../p.svg)"},
		{"docs/a.md", "[rules](rules)", "[rules](rules/README.md)"},
		{"docs/a.md", "[arch](../ARCHITECTURE.md#rooms)", "[arch](project/ARCHITECTURE.md#rooms)"},
		{"ARCHITECTURE.md", "[a](docs/a.md)", "[a](../a.md)"},
		{"docs/a.md", "[m](../examples/policy/main.go)", "[m](https://github.com/replay-llm/replay/blob/main/examples/policy/main.go)"},
		{"docs/a.md", "[e](../examples)", "[e](https://github.com/replay-llm/replay/tree/main/examples)"},
		{"docs/a.md", "[w](https://example.com/a(b))", "[w](https://example.com/a(b))"},
		{"docs/a.md", "```\n[x](gone.md)\n```\n[b](rules/b.md)", "```\n[x](gone.md)\n```\n[b](rules/b.md)"},
	} {
		got, err := s.rewriteLinks(c.from, c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %q: %q, %v, want %q", c.from, c.text, got, err, c.want)
		}
	}
	if _, err := s.rewriteLinks("docs/a.md", "x\n[b](gone.md)"); err == nil || err.Error() != "docs/a.md:2: gone.md: docs/gone.md is not there" {
		t.Errorf("%v", err)
	}
}

// The lists of docs/index.md become the navigation.
func TestNavigation(t *testing.T) {
	const index = "# Home\n\n## Start\n\n- [One](one.md): first\n- [Two](two/README.md)\n  - [Three](two/three.md)\n\n## Reference\n\n- [Old](old.md)\n"
	chapters, err := readChapters(addMadePages(index))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range chapters {
		got = append(got, writeToctree(c.title, ".", c.entries))
	}
	want := []string{
		"\n```{toctree}\n:hidden:\n:caption: Start\n\nOne <one.md>\nTwo <two/README.md>\n```\n",
		"\n```{toctree}\n:hidden:\n:caption: Reference\n\nCommands of replay <reference/commands/replay.md>\nCommands of replay-live <reference/commands/replay-live.md>\n" +
			"Keys of the report <reference/report-keys.md>\nList of engine arguments <reference/engine-arguments.md>\n" +
			"Flags of other tools <reference/other-tools.md>\nTables of accuracy <reference/accuracy-tables.md>\nOld <old.md>\n```\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if below := writeToctree("", "two", chapters[0].entries[1].below); below != "\n```{toctree}\n:hidden:\n\nThree </two/three.md>\n```\n" {
		t.Errorf("below: %q", below)
	}
	for _, text := range []string{"- [One](one.md)\n## Start\n", "## Start\n  - [One](one.md)\n"} {
		if _, err := readChapters(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// The first page has the text before the lists.
func TestLanding(t *testing.T) {
	const index = "# Home\n\nIt predicts.\n\n| Job | Answers |\n| --- | --- |\n| [One](a/one.md) | How many? |\n| [Two](two.md) | Which? |\n\nEnd.\n\n## Start\n\n- [One](a/one.md)\n"
	const want = "# Home\n\nIt predicts.\n\n<div class=\"jobs\">\n<a href=\"a/one.html\"><strong>One</strong> How many?</a>\n<a href=\"two.html\"><strong>Two</strong> Which?</a>\n</div>\n\nEnd.\n\n"
	if got := writeLanding(index); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The search texts contain the words of each article, without heading marks.
func TestSearchTexts(t *testing.T) {
	dir := makeFiles(t, map[string]string{
		"a/b.html": `<p>menu</p><article><h1>Title<a class="headerlink" href="#t">¶</a></h1><p>Some  <em>words</em></p><script>x()</script></article>`, "c.html": `<p>no article</p>`,
	})
	if err := writeSearchTexts(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "searchtexts.js"))
	if want := "const searchTexts = {\"a/b.html\":\"Title Some words\"};\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// Each kind of broken link is reported, and valid links are accepted.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ page, want string }{
		{`<p id="x"><a href="b.html#y">b</a> <a href="#x">x</a> <a href="">self</a> <a href="https://example.com/">out</a><img src="p.svg" alt="p"></p>`, ""},
		{`<link rel="stylesheet" href="s.css"><script src="data:text/javascript,1"></script><svg><use href="#s"></use></svg>`, ""},
		{`<a href="gone.html">g</a>`, `a.html: <a> gone.html: gone.html is not there`},
		{`<a href="b.html#z">b</a>`, `a.html: <a> b.html#z: b.html has no anchor #z`},
		{`<a href="#z">z</a>`, `a.html: <a> #z: a.html has no anchor #z`},
		{`<a href="/b.html">b</a>`, `a.html: <a> /b.html: must be a path from the page, which holds wherever the site is put`},
		{`<a href="javascript:x()">b</a>`, `a.html: <a> javascript:x(): must be https, or a page of the site`},
		{`<img src="p.svg">`, `a.html: the picture p.svg has no text (alt)`},
		{`<img alt="p" src="https://example.com/p.svg">`, `a.html: <img> https://example.com/p.svg: comes from another host`},
		{`<script src="//example.com/x.js"></script>`, `a.html: <script> //example.com/x.js: comes from another host`},
		{`<link rel="preconnect" href="https://fonts.example.com">`, `a.html: <link> https://fonts.example.com: comes from another host`},
		{`<iframe src="gone.html"></iframe>`, `a.html: <iframe> gone.html: gone.html is not there`},
	} {
		dir := makeFiles(t, map[string]string{"a.html": c.page, "b.html": `<h1 id="y">b</h1>`, "p.svg": "<svg/>", "s.css": `b { background: url("p.svg") }`})
		got, err := checkSite(dir)
		if err != nil || strings.Join(got.wrong, "\n") != c.want {
			t.Errorf("%s: %q, %v, want %q", c.page, got.wrong, err, c.want)
		}
	}
	dir := makeFiles(t, map[string]string{"a.html": "", "s.css": `@import "https://example.com/x.css"; b { background: url(gone.png) }`})
	got, err := checkSite(dir)
	want := []string{`s.css: <url> gone.png: gone.png is not there`, `s.css: <url> https://example.com/x.css: comes from another host`}
	if err != nil || !slices.Equal(got.wrong, want) {
		t.Errorf("%q, %v, want %q", got.wrong, err, want)
	}
	if err := reportCheck(t.TempDir()); err == nil {
		t.Error("a site without pages is taken")
	}
}

// The page of keys has every key of the report. A key without a value in the run is an error.
func TestKeys(t *testing.T) {
	values := make(map[string]json.RawMessage)
	for _, f := range new(collector.Report).Fields() {
		values[f.Key] = json.RawMessage("1234.56789")
	}
	page, err := writeKeys(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| `completed_requests` | requests | number of completed requests that the report counts | 1234.568 |\n",
		"| `p99_ttft_ms` | ms | TTFT (time from arrival to first token): 99th percentile | 1234.568 |\n",
	} {
		if !strings.Contains(page, row) {
			t.Errorf("no row %q in\n%s", row, page)
		}
	}
	if rows := strings.Count(page, "\n"); rows != len(values)+2 || len(values) < 60 {
		t.Errorf("%d lines for %d keys", rows, len(values))
	}
	if _, err := writeKeys(nil); err == nil {
		t.Error("a key without a value is taken")
	}
}

// The list pages have every setting and every flag of other tools. Names of documents become links.
func TestLists(t *testing.T) {
	s := &site{places: map[string]string{"docs/hardware.md": "hardware.md"}}
	settings, flags := s.linkDocuments(writeSettings()), writeOtherTools()
	for _, row := range []string{
		"| `max_num_active_seqs` |  |  | none | second limit of requests that run on a worker at once, in addition to `max_num_seqs` |\n",
		"a GPU by its memory ([docs/hardware.md](../hardware.md#defaults-with-a-gpu))", "\n## SGLang\n",
	} {
		if !strings.Contains(settings, row) {
			t.Errorf("no %q in\n%s", row, settings)
		}
	}
	for _, f := range cli.OtherFlags() {
		if tools := strings.Count(f.Tool, ",") + 1; strings.Count(flags, "| `--"+f.Name+"` |") < tools {
			t.Errorf("--%s is not there %d times", f.Name, tools)
		}
	}
}

// A folder that is not a site is not replaced.
func TestFolderIsKept(t *testing.T) {
	if err := checkFolder(makeFiles(t, map[string]string{"thesis.txt": ""})); err == nil {
		t.Error("a folder with other files is taken")
	}
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "new"), makeFiles(t, map[string]string{"searchindex.js": "", "index.html": ""})} {
		if err := checkFolder(dir); err != nil {
			t.Error(err)
		}
	}
}

// Every section of the gallery has a command that writes a page.
func TestGallery(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "explore.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	sections := strings.Split(string(text), "\n### ")[1:]
	for _, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		left := listLeft(section)
		if len(left) == 0 {
			t.Errorf("%s leaves no page", title)
		}
		for _, name := range left {
			if seen[filepath.Base(name)] {
				t.Errorf("%s: another section leaves %s, too", title, name)
			}
			seen[filepath.Base(name)] = true
		}
	}
	if len(sections) < 8 {
		t.Errorf("%d sections", len(sections))
	}
}
