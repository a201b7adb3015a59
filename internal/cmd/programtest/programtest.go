// Package programtest contains tests that both programs share. The tests check that help fits a terminal, that manual
// pages have every flag, and that errors are short and suggest the nearest flag.
package programtest

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/manual"
	"github.com/replay-llm/replay/internal/optional"
)

// Maximum size of the output of --help.
const (
	mostHelpLines   = 56
	mostHelpColumns = 80
)

// ListCommands returns the commands of a program by name. ListCommands omits commands that the other program runs.
func ListCommands(p cli.Program) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			name := strings.Join(strings.Fields(c.CommandPath())[1:], " ")
			if c.DisableFlagParsing || c.Hidden || name == "help" {
				continue
			}
			all[name] = c
			add(c)
		}
	}
	add(p(cli.Streams{}, nil))
	return all
}

// CheckHelp checks that the help of every command fits a terminal. If --help-all shows more flags, the last line of
// the help must mention it.
func CheckHelp(t *testing.T, p cli.Program) {
	for name, cmd := range ListCommands(p) {
		short, whole := PrintHelp(t, p, cmd, "--help"), PrintHelp(t, p, cmd, "--help-all")
		lines := strings.Split(strings.TrimSuffix(short, "\n"), "\n")
		if len(lines) > mostHelpLines {
			t.Errorf("%s --help: %d lines, expected at most %d", name, len(lines), mostHelpLines)
		}
		for _, line := range lines {
			if len([]rune(line)) > mostHelpColumns {
				t.Errorf("%s --help: wider than %d columns: %s", name, mostHelpColumns, line)
			}
		}
		last, want := lines[len(lines)-1], fmt.Sprintf("--help-all shows the rest: %d more.", countFlags(whole)-countFlags(short))
		if missing := countFlags(whole) > countFlags(short); missing != (last == want) {
			t.Errorf("%s --help ends with %q, expected %q", name, last, want)
		}
	}
}

// CheckTiers checks that the help of the given commands shows only common flags.
func CheckTiers(t *testing.T, p cli.Program, names ...string) {
	all := ListCommands(p)
	for _, name := range names {
		short, whole := PrintHelp(t, p, all[name], "--help"), PrintHelp(t, p, all[name], "--help-all")
		if strings.Count(short, "\n") >= strings.Count(whole, "\n") || !strings.Contains(short, "--help-all") {
			t.Errorf("%s --help shows all flags:\n%s", name, short)
		}
	}
}

// countFlags counts the flags in a help text.
func countFlags(help string) int {
	return len(regexp.MustCompile(`(?m)^ {2}(-.,|   ) --`).FindAllString(help, -1))
}

// PrintHelp returns the output of a command with a help flag.
func PrintHelp(t *testing.T, p cli.Program, cmd *cobra.Command, flag string) string {
	t.Helper()
	args := append(strings.Fields(cmd.CommandPath())[1:], flag)
	var out, errs bytes.Buffer
	if code := p.Run(args, nil, &out, &errs); code != 0 {
		t.Fatalf("%q: exit %d: %s", args, code, &errs)
	}
	return out.String()
}

// CheckManual checks that every command has a manual page with all flags that are not hidden. If groff is installed,
// it must format the pages without warnings.
func CheckManual(t *testing.T, p cli.Program) {
	program := p(cli.Streams{}, nil)
	pages, err := manual.MakeFiles(program, "2026-11-23", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "ps1"} {
		if script := pages["completions/"+program.Name()+"."+shell]; !bytes.Contains(script, []byte("__complete")) {
			t.Errorf("%s for %s: %d bytes", shell, program.Name(), len(script))
		}
	}
	for name, cmd := range ListCommands(p) {
		if strings.HasPrefix(name, "completion") {
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
	for file, page := range pages {
		if !strings.HasPrefix(file, "man/") {
			continue
		}
		_, also, found := bytes.Cut(page, []byte(".SH SEE ALSO\n"))
		if !found || !bytes.Contains(page, []byte(".SH EXIT STATUS\n")) {
			t.Errorf("%s has no exit status, or names no other page", file)
		}
		for line := range bytes.Lines(also) {
			if name := strings.Fields(strings.ReplaceAll(string(line), `\-`, "-"))[1]; pages["man/"+name+".1"] == nil {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
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

// CheckReference checks that the Markdown page of every command has each visible flag exactly once, and that links
// exist. tools/site checks links to pages of the other program. CheckReference returns the number of flags.
func CheckReference(t *testing.T, p cli.Program) int {
	root := p(cli.Streams{}, nil)
	pages, program := manual.MakeReference(root), root.Name()
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	for name, text := range pages {
		for _, m := range link.FindAllSubmatch(text, -1) {
			if to := string(m[1]); pages[to] == nil && (program != "replay" || !strings.HasPrefix(to, "replay-live-")) {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
	}
	flags := 0
	for name, cmd := range ListCommands(p) {
		if strings.HasPrefix(name, "completion") {
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
	return flags
}

// CheckJSON checks that every command supports --output json, except the commands in without. The values of without
// are the reasons.
func CheckJSON(t *testing.T, p cli.Program, without map[string]string) {
	all := ListCommands(p)
	for name, cmd := range all {
		takes := false
		if f := cmd.Flags().Lookup("output"); f != nil {
			choice, ok := f.Value.(*cli.Choice)
			takes = ok && slices.Contains(choice.Names, "json")
		}
		if _, excepted := without[name]; excepted == takes && !strings.HasPrefix(name, "completion") {
			t.Errorf("%s takes --output json: %v; it is among the exceptions: %v", name, takes, excepted)
		}
	}
	for name := range without {
		if all[name] == nil {
			t.Errorf("%s is excepted, and is no command", name)
		}
	}
}

// CheckShort runs a command line that must fail within 5 seconds. The error must have at most most bytes.
func CheckShort(t *testing.T, p cli.Program, line string, most int) {
	t.Helper()
	var out, errs bytes.Buffer
	began := time.Now()
	code := p.Run(strings.Split(line, " ")[1:], nil, &out, &errs)
	if took := time.Since(began); code == 0 || errs.Len() == 0 || errs.Len() > most || took > 5*time.Second {
		t.Errorf("%.80q: exit %d after %v, %d bytes: %.300s", line, code, took, errs.Len(), &errs)
	}
}

// CheckSuggestion runs a command line that must exit with code. The error must suggest meant.
func CheckSuggestion(t *testing.T, p cli.Program, line, meant string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	got := p.Run(strings.Fields(line)[1:], nil, &out, &errs)
	if want := "did you mean " + meant + "?"; got != code || out.Len() > 0 || strings.Count(errs.String(), want) != 1 {
		t.Errorf("$ %s: exit %d, expected %d and %q\n%s%s", line, got, code, want, &out, &errs)
	}
}

// CheckLibraries checks that a program uses the agreed libraries, and that its packages use only internal/json for
// JSON.
func CheckLibraries(t *testing.T, program string) {
	const module = "github.com/replay-llm/replay"
	packages := ListPackages(t, program)
	for _, library := range []string{
		"github.com/spf13/cobra", "github.com/schollz/progressbar/v3", "github.com/zeebo/xxh3", "gonum.org/v1/gonum/", "github.com/goccy/go-json",
	} {
		found := false
		for name := range packages {
			found = found || strings.HasPrefix(name, library)
		}
		if !found {
			t.Errorf("%s has no %s in it", program, library)
		}
	}
	for name, imports := range packages {
		// internal/json imports the value types of encoding/json, because go-json uses them too.
		if strings.HasPrefix(name, module) && name != module+"/internal/json" && slices.Contains(imports, "encoding/json") {
			t.Errorf("%s imports encoding/json; must be %s/internal/json", name, module)
		}
	}
}

// ListPackages returns the packages of a program with the imports of each package. program is a folder relative to
// the test.
func ListPackages(t *testing.T, program string) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", program).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		packages[words[0]] = words[1:]
	}
	if len(packages) < 100 {
		t.Fatalf("%d packages, expected all that the program is made of", len(packages))
	}
	return packages
}
