// Package manual makes the manual pages of a program and its completions for
// shells from its commands, for releases, pages in Markdown, for the site, and the
// types of flags, for Python.
//
// cobra/doc would replace the 90 lines that make manual pages, with three more modules. Its page of replay lists no commands with their
// descriptions, 234 of 1586 flags have "" if these pages have the name of the value, and the commands of the other program get pages without flags.
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

// Start writes the files of a program into the folder that the command line names, and
// ends the process.
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

// exitWith ends the process, with an error if there is one.
func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// MakeFiles returns the pages and the completions of a program by name: man/NAME.1 for
// each command, completions/PROGRAM.SHELL.
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

// isOther reports whether another program carries out a command and has its page, or whether every program has it.
func isOther(cmd *cobra.Command) bool {
	return cmd.DisableFlagParsing || cmd.Name() == "help" || cmd.Name() == "completion"
}

// addPages adds the page of cmd, and those of the commands below it.
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
	p.writeLine(".SH EXIT STATUS\n0 is success, 1 is refused input or a run that failed, 2 is wrong usage. docs/exit\\-codes.md lists the remaining codes.")
	p.writeSeeAlso(cmd)
	files["man/"+name+".1"] = p.Bytes()
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !isOther(c) {
			addPages(files, c, edition)
		}
	}
}

// writeSeeAlso lists the pages of the command above, of those next to it and of those below it.
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

// page is a manual page in the language of man(7).
type page struct{ bytes.Buffer }

func (p *page) writeLine(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// writeText writes paragraphs. Indented lines stay unchanged.
func (p *page) writeText(text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			p.writeLine(".PP\n.nf\n%s\n.fi", escapeText(paragraph))
		} else {
			p.writeLine(".PP\n%s", escapeText(paragraph))
		}
	}
}

// writeCommands lists the commands below cmd and where each is described.
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

// writeFlags describes all flags that the whole help shows, in its order.
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

// escapeText returns text as it stands in a page: nothing in it is an escape or a request.
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
