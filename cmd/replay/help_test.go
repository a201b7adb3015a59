package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/cmd/internal/cli"
	live "github.com/replay-llm/replay/cmd/replay-live/root"
	"github.com/replay-llm/replay/cmd/replay/root"
)

// Sizes of the help that is printed without --help-all.
const (
	mostHelpLines   = 56
	mostHelpColumns = 80
)

// listCommands returns the commands of both programs by their names, those that one
// hands over to the other as the other has them.
func listCommands() map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			name := strings.Join(strings.Fields(c.CommandPath())[1:], " ")
			if c.DisableFlagParsing || c.Hidden || name == "help" {
				continue
			}
			if all[name] == nil {
				all[name] = c
			}
			add(c)
		}
	}
	add(root.New(cli.Streams{}, nil))
	add(live.New(cli.Streams{}, nil))
	return all
}

// The help of every command fits a terminal; what it leaves out is in --help-all,
// which its last line says, and the shell completes all.
func TestHelpFits(t *testing.T) {
	for name, cmd := range listCommands() {
		short, whole := printHelp(t, cmd, "--help"), printHelp(t, cmd, "--help-all")
		lines := strings.Split(strings.TrimSuffix(short, "\n"), "\n")
		if len(lines) > mostHelpLines {
			t.Errorf("%s --help: %d lines, want at most %d", name, len(lines), mostHelpLines)
		}
		for _, line := range lines {
			if len([]rune(line)) > mostHelpColumns {
				t.Errorf("%s --help: wider than %d columns: %s", name, mostHelpColumns, line)
			}
		}
		last, want := lines[len(lines)-1], fmt.Sprintf("--help-all shows the rest: %d more.", countFlags(whole)-countFlags(short))
		if missing := countFlags(whole) > countFlags(short); missing != (last == want) {
			t.Errorf("%s --help ends with %q, want %q", name, last, want)
		}
	}
}

// Commands with many flags show the common ones first.
func TestHelpInTiers(t *testing.T) {
	all := listCommands()
	for _, name := range []string{"trace", "concurrency", "plan", "bounds", "traces convert", "traces sample", "worker", "frontend"} {
		short, whole := printHelp(t, all[name], "--help"), printHelp(t, all[name], "--help-all")
		if strings.Count(short, "\n") >= strings.Count(whole, "\n") || !strings.Contains(short, "--help-all") {
			t.Errorf("%s --help shows all flags:\n%s", name, short)
		}
	}
	var out, errs bytes.Buffer
	for _, flag := range []string{"--help-all", "--help", "--router-queue-policy", "--workers", "--tokens-per-byte"} {
		out.Reset()
		if code := run([]string{"__complete", "trace", flag}, nil, &out, &errs); code != 0 || !slices.Contains(strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\t' || r == '\n' }), flag) {
			t.Errorf("completion of %s: exit %d\n%s", flag, code, &out)
		}
	}
}

// countFlags counts the flags that a help shows.
func countFlags(help string) int {
	return len(regexp.MustCompile(`(?m)^ {2}(-.,|   ) --`).FindAllString(help, -1))
}

// printHelp returns what a command prints when it is asked for help.
func printHelp(t *testing.T, cmd *cobra.Command, flag string) string {
	t.Helper()
	args := append(strings.Fields(cmd.CommandPath())[1:], flag)
	program := root.New
	if strings.HasPrefix(cmd.CommandPath(), "replay-live") {
		program = live.New
	}
	var out, errs bytes.Buffer
	if code := cli.Program(program).Run(args, nil, &out, &errs); code != 0 {
		t.Fatalf("%q: exit %d: %s", args, code, &errs)
	}
	return out.String()
}
