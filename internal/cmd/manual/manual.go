// Package manual generates documentation of a program from its commands: manual pages, shell completions, Markdown
// pages for the site, and the types of flags for Python.
//
// cobra/doc would replace the 90 lines that generate manual pages, but it requires three more modules. The page of
// replay does not describe subcommands. For 234 of 1586 flags its pages show "" instead of the name of the value. The
// package also adds pages without flags for the commands of replay-live.
package manual

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Start writes the files of a program to the folder in the arguments of the process, and exits the process.
func Start(root *cobra.Command) {
	out := flag.String("out", "", "the `folder` to write to")
	date := flag.String("date", "", "the `day` that stands in the pages")
	version := flag.String("version", "devel", "the `version` that stands there")
	markdown := flag.Bool("markdown", false, "write pages in Markdown instead, for the site")
	python := flag.String("python", "", "write the types of flags to this `file` instead, for Python")
	flag.Parse()
	if *python != "" && flag.NArg() == 0 {
		text, err := MakePython(root)
		if err == nil {
			err = os.WriteFile(*python, text, 0o644)
		}
		exitWith(err)
	}
	if *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	files, err := MakeReference(root), error(nil)
	if !*markdown {
		files, err = MakeFiles(root, *date, *version)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(*out, filepath.FromSlash(name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, files[name], 0o644)
		}
	}
	exitWith(err)
}

// exitWith exits the process. exitWith prints the error, if any.
func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// MakeFiles returns the manual pages and completions of a program by file name: man/NAME.1 for each command, and
// completions/PROGRAM.SHELL.
func MakeFiles(root *cobra.Command, date, version string) (map[string][]byte, error) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	files := make(map[string][]byte)
	addPages(files, root, fmt.Sprintf("%q %q", date, "replay "+version))
	for shell, write := range map[string]func(*bytes.Buffer) error{
		"bash": func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"zsh":  func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
		"ps1":  func(b *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return nil, err
		}
		files["completions/"+root.Name()+"."+shell] = b.Bytes()
	}
	return files, nil
}

// isOther reports whether a command gets no page: replay-live runs it, or it is help or completion.
func isOther(cmd *cobra.Command) bool {
	return cmd.DisableFlagParsing || cmd.Name() == "help" || cmd.Name() == "completion"
}

// addPages adds the pages of cmd and its subcommands.
func addPages(files map[string][]byte, cmd *cobra.Command, edition string) {
	cmd.InitDefaultHelpFlag()
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	p := &page{}
	p.writeLine(".TH %q 1 %s", strings.ToUpper(name), edition)
	p.writeLine(".SH NAME\n%s \\- %s", escapeText(name), escapeText(cmd.Short))
	p.writeLine(".SH SYNOPSIS\n.B %s", escapeText(cmd.UseLine()))
	if cmd.Long != "" {
		p.writeLine(".SH DESCRIPTION")
		p.writeText(cmd.Long)
	}
	p.writeCommands(cmd)
	p.writeFlags(cmd)
	if cmd.Example != "" {
		p.writeLine(".SH EXAMPLES\n.nf\n%s\n.fi", escapeText(cmd.Example))
	}
	p.writeLine(".SH EXIT STATUS\n0: success. 1: rejected input or a failed run. 2: wrong usage. docs/command\\-line.md lists all codes.")
	p.writeSeeAlso(cmd)
	files["man/"+name+".1"] = p.Bytes()
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !isOther(c) {
			addPages(files, c, edition)
		}
	}
}

// writeSeeAlso writes references to the pages of the parent command, of its other subcommands, and of the subcommands
// of cmd.
func (p *page) writeSeeAlso(cmd *cobra.Command) {
	var names []string
	add := func(c *cobra.Command) {
		if c != cmd && (!c.HasParent() || c.IsAvailableCommand()) && !isOther(c) {
			names = append(names, ".BR "+escapeText(strings.ReplaceAll(c.CommandPath(), " ", "-"))+" (1)")
		}
	}
	if cmd.HasParent() {
		add(cmd.Parent())
		for _, c := range cmd.Parent().Commands() {
			add(c)
		}
	}
	for _, c := range cmd.Commands() {
		add(c)
	}
	if len(names) > 0 {
		p.writeLine(".SH SEE ALSO\n%s", strings.Join(names, ",\n"))
	}
}

// page is a manual page in the format of man(7), or a Markdown page.
type page struct{ bytes.Buffer }

func (p *page) writeLine(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// writeText writes paragraphs. writeText does not reformat indented paragraphs.
func (p *page) writeText(text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			p.writeLine(".PP\n.nf\n%s\n.fi", escapeText(paragraph))
		} else {
			p.writeLine(".PP\n%s", escapeText(paragraph))
		}
	}
}

// writeCommands lists the subcommands of cmd with their descriptions.
func (p *page) writeCommands(cmd *cobra.Command) {
	title := ".SH COMMANDS\n"
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			where := ""
			if c.DisableFlagParsing {
				where = ", by replay\\-live(1)"
			}
			p.writeLine("%s.TP\n.B %s\n%s%s", title, escapeText(c.Name()), escapeText(c.Short), where)
			title = ""
		}
	}
}

// writeFlags describes the flags that are not hidden, in the order of the help.
func (p *page) writeFlags(cmd *cobra.Command) {
	title := ".SH OPTIONS\n"
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		one := pflag.NewFlagSet("", pflag.ContinueOnError)
		one.AddFlag(f)
		name, usage, _ := strings.Cut(strings.TrimSpace(one.FlagUsages()), "   ")
		p.writeLine("%s.TP\n.B %s\n%s", title, escapeText(name), escapeText(strings.TrimSpace(usage)))
		title = ""
	})
}

// escapeText escapes text for a manual page, so that it contains no escape sequences and no requests.
func escapeText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
