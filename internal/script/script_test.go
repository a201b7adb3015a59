package script

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// echo prints its arguments and then its input. With the argument "fail" echo prints to stderr.
func echo(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "fail" {
		fmt.Fprintln(stderr, strings.Join(args[1:], " "))
		return 3
	}
	text, _ := io.ReadAll(stdin)
	fmt.Fprintf(stdout, "%q\n%s", args, text)
	return 0
}

func TestWords(t *testing.T) {
	cases := []struct {
		line string
		want Command
	}{
		{`a b`, Command{Args: []string{"a", "b"}}},
		{"a 'b c' \"d\" e\\ f \\\n --x='{\"k\": 1}' <in", Command{Args: []string{"a", "b c", "d", "e f", `--x={"k": 1}`}, Stdin: "in"}},
		{`a ''`, Command{Args: []string{"a", ""}}},
	}
	for _, c := range cases {
		if got, err := Words(c.line); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.line, got, err, c.want)
		}
	}
	for _, line := range []string{``, `a 'b`, `a | b`, `a <`, `a \`} {
		if got, err := Words(line); err == nil {
			t.Errorf("%q: %+v, want an error", line, got)
		}
	}
}

func TestRewriteThenRun(t *testing.T) {
	dir := t.TempDir()
	path, input := filepath.Join(dir, "a.script"), filepath.Join(dir, "in")
	if err := os.WriteFile(input, []byte("\n# read\n"[1:]), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "# One.\n$ echo a \\\n  'b c'\nstale\n\n# Two.\n$ echo fail x\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Name: "echo", Program: echo, Rewrite: true}
	Run(t, path, o)
	want := "# One.\n$ echo a \\\n  'b c'\n[\"a\" \"b c\"]\n\n# Two.\n$ echo fail x\n! x\nexit 3\n"
	if got, _ := os.ReadFile(path); string(got) != want {
		t.Fatalf("rewritten:\n%swant:\n%s", got, want)
	}
	o.Rewrite = false
	Run(t, path, o)
}

func TestParseRefusesStrayLines(t *testing.T) {
	if _, err := Parse("# a\nstray\n"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v", err)
	}
}

func TestBlocks(t *testing.T) {
	text := "# T\n```go\n$ no\n```\n```sh\n# remark\nreplay a \\\n  b\nother\n```\n- x\n  ```console\n  $ replay c\n  out\n  ```\n"
	got := Blocks(text)
	want := []Block{
		{6, []Case{{Line: 7, Command: "replay a \\\n  b"}, {Line: 9, Command: "other"}}},
		{13, []Case{{Line: 13, Command: "replay c", Output: "out\n"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a\nb", "a\nb\n", true}, {"a\n...\nz", "a\nb\nc\nz", true}, {"a\n...", "a", true}, {"a", "a\nb", false},
		{"x...z", "xyz", true}, {"x...z", "xy", false}, {"a...b...c", "a1b2c", true}, {"a...b...c", "a1c", false},
		{"", "a", false},
	} {
		if Matches(c.want, c.got) != c.ok {
			t.Errorf("%q and %q: want %v", c.want, c.got, c.ok)
		}
	}
}
