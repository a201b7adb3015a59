package yamlfile

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/sim"
)

type inner struct {
	Share float64 `yaml:"share" is:"-1..1"`
}

type entry struct {
	Name string `yaml:"name" is:"name"`
	N    int    `yaml:"n"`
}

type extra struct {
	Small int `yaml:"small" of:"a"`
}

type whole struct {
	Count  int      `yaml:"count" is:"1..8"`
	From   sim.Time `yaml:"span.from"`
	To     sim.Time `yaml:"span.to"`
	One    int32    `yaml:"left,right" of:"a,b" is:"2.."`
	Inner  inner    `yaml:"inner" what:"an inner"`
	List   []entry  `yaml:"list" list:"entries" what:"an entry"`
	Own    []string `yaml:"own" list:"words" each:"word"`
	*extra `yaml:",inline"`
	Body   ast.Node `yaml:"body"`
	unread int
}

func readWhole(t *testing.T, kind, text string) (whole, Seen, error) {
	t.Helper()
	f := &File{Path: "f.yaml", Kind: kind, Only: func(kinds []string) error { return errors.New("only of " + cli.Either(kinds)) }}
	f.Rules = map[string]Rule{"name": To(ReadName), "word": OneOf([]string{"up", "down"})}
	body, err := f.ReadBody([]byte(text), "whole")
	if err != nil {
		return whole{}, nil, err
	}
	w := whole{List: []entry{{"old", 1}}}
	seen, err := f.Read(body, "a whole", &w)
	return w, seen, err
}

func TestRead(t *testing.T) {
	w, seen, err := readWhole(t, "b", "right: 3\nspan: {to: 2s, from: 1}\ninner: {share: -0.5}\nlist: [{name: x, n: 2}, {n: 3}]\nown: [up, down]\nbody: [1]\n")
	if err != nil {
		t.Fatal(err)
	}
	if w.unread != 0 {
		t.Errorf("a field without a tag is %d, must stay 0", w.unread)
	}
	if w.Body == nil {
		t.Error("no node of body")
	}
	w.Body = nil
	want := whole{From: 1, To: 2000, One: 3, Inner: inner{-0.5}, List: []entry{{"x", 2}, {"", 3}}, Own: []string{"up", "down"}}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("%+v, want %+v", w, want)
	}
	if !slices.Equal(seen, Seen{"right", "span", "inner", "list", "own", "body"}) || !seen.Has("own") || seen.Has("left") {
		t.Errorf("keys %q", seen)
	}
}

// Errors have the file, the line, the key, the value and the rule.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"3":                                 "f.yaml:1: must be a whole, with count, span, left, inner, list, own, small or body",
		"\ncounts: 3":                       "f.yaml:2: counts: no such key of a whole, must be count, span, left, inner, list, own, small or body, did you mean count?",
		"count: 9":                          "f.yaml:1: count: 9, must be 1 to 8",
		"count: 1.5":                        "f.yaml:1: count: 1.5, must be 1 to 8",
		"count: [1]":                        "f.yaml:1: count: must be a single value",
		"left: 1":                           "f.yaml:1: left: 1: must be a whole number from 2 on",
		"right: 3":                          "f.yaml:1: right: only of b",
		"small: x":                          "f.yaml:1: small: x: must be a whole number from 0 on",
		"span: 3":                           "f.yaml:1: must be span, with from or to",
		"span: {form: 3}":                   "f.yaml:1: form: no such key of span, must be from or to, did you mean from?",
		"span: {from: x}":                   "f.yaml:1: from: x: must be ms, or a time such as 90s or 10m",
		"inner: {share: 2}":                 "f.yaml:1: share: 2: must be a number from -1 to 1",
		"inner: [1]":                        "f.yaml:1: must be an inner, with share",
		"list: 3":                           "f.yaml:1: list: must be a list of entries",
		"list:\n- {}\n- {nam: 3}":           "f.yaml:3: nam: no such key of an entry, must be name or n, did you mean name?",
		"list:\n- name: ' '":                "f.yaml:2: name: must be a name",
		"own: [up, dwn]":                    "f.yaml:1: own: dwn: must be up or down, did you mean down?",
		"count: 1\n---\ncount: 2":           "f.yaml: 2 documents, expected one whole",
		"count: 1\n\"count\": 2\n":          "f.yaml:2: ",
		"unread: 3":                         "f.yaml:1: unread: no such key",
		"count: " + strings.Repeat("9", 50): "f.yaml:1: count: 999",
	} {
		if _, _, err := readWhole(t, "a", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestKeys(t *testing.T) {
	want := []string{"count", "span", "from", "to", "left", "right", "inner", "share", "list", "name", "n", "own", "small", "body"}
	if keys := Keys(whole{}); !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
}
