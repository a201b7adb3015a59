package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/manual"
	live "github.com/replay-llm/replay/cmd/replay-live/root"
	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/optional"
)

// Every command has a manual page with all its flags that are shown, which groff, where
// there is one, sets without a warning.
func TestManual(t *testing.T) {
	pages := make(map[string][]byte)
	for _, program := range []*cobra.Command{root.New(cli.Streams{}, nil), live.New(cli.Streams{}, nil)} {
		files, err := manual.MakeFiles(program, "2026-11-23", "v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			pages[name] = text
		}
		for _, shell := range []string{"bash", "zsh", "fish", "ps1"} {
			if script := files["completions/"+program.Name()+"."+shell]; !bytes.Contains(script, []byte("__complete")) {
				t.Errorf("%s for %s: %d bytes", shell, program.Name(), len(script))
			}
		}
	}
	for name, cmd := range listCommands() {
		if cmd.Parent().Name() == "completion" || name == "completion" {
			continue
		}
		file := "man/" + strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page := pages[file]
		if !bytes.HasPrefix(page, []byte(`.TH "REPLAY-`)) {
			t.Errorf("no %s", file)
			continue
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if escaped := strings.ReplaceAll("--"+f.Name, "-", `\-`); !f.Hidden && !bytes.Contains(page, []byte(escaped)) {
				t.Errorf("%s has no --%s", file, f.Name)
			}
		})
	}
	groff := optional.Program(t, "groff", "--version")
	var all bytes.Buffer
	for name, text := range pages {
		if strings.HasPrefix(name, "man/") {
			all.Write(text)
		}
	}
	check := exec.Command(groff, "-K", "utf8", "-man", "-Tutf8", "-ww", "-z")
	check.Stdin = &all
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// Every command has a page in Markdown with all its flags that are shown, each once, and
// what a page links to is there.
func TestReference(t *testing.T) {
	pages := make(map[string][]byte)
	for _, program := range []*cobra.Command{root.New(cli.Streams{}, nil), live.New(cli.Streams{}, nil)} {
		for name, text := range manual.MakeReference(program) {
			pages[name] = text
		}
	}
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	for name, text := range pages {
		for _, m := range link.FindAllSubmatch(text, -1) {
			if pages[string(m[1])] == nil {
				t.Errorf("%s links to %s, which there is not", name, m[1])
			}
		}
	}
	flags := 0
	for name, cmd := range listCommands() {
		if cmd.Parent().Name() == "completion" || name == "completion" {
			continue
		}
		page := pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".md"]
		if !bytes.HasPrefix(page, []byte("# "+cmd.CommandPath()+"\n")) {
			t.Errorf("no page of %s", cmd.CommandPath())
			continue
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Deprecated != "" {
				return
			}
			flags++
			if n := len(regexp.MustCompile("(?m)^`(-., )?--"+f.Name+"[ `\\[]").FindAll(page, -1)); n != 1 {
				t.Errorf("%s has --%s %d times", cmd.CommandPath(), f.Name, n)
			}
		})
	}
	if flags < 500 {
		t.Errorf("%d flags", flags)
	}
}

// The types of arguments in Python are those of the flags: go generate ./cmd/replay/manual.
func TestPythonNamesTheFlags(t *testing.T) {
	want, err := manual.MakePython(root.New(cli.Streams{}, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../python/src/replay/_flags.py")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v; out of date, want what go generate ./cmd/replay/manual writes", err)
	}
	for _, line := range []string{
		"    workers: Union[int, str]\n", "    engine: Literal[\"vllm\", \"sglang\"]\n", "    try_: Value\n", "    front: bool\n", "    jobs: int\n    \"\"\"cells at once, a number; the table does not depend on it\"\"\"\n",
	} {
		if !bytes.Contains(want, []byte(line)) {
			t.Errorf("no %q", line)
		}
	}
}
