package manual

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// MakeReference returns a Markdown page for each command of a program, by file name. Pages have links to the pages of
// subcommands.
func MakeReference(root *cobra.Command) map[string][]byte {
	files := make(map[string][]byte)
	addReference(files, root)
	return files
}

// addReference adds the pages of cmd and its subcommands.
func addReference(files map[string][]byte, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	p := &page{}
	p.writeLine("# %s\n\n%s\n", cmd.CommandPath(), escapeMarkdown(cmd.Short))
	p.writeLine("    %s\n", strings.ReplaceAll(cmd.UseLine(), "\n", "\n    "))
	p.writeParagraphs(cmd.Long)
	if cmd.Example != "" {
		p.writeLine("## Examples\n\n%s\n", indentText(cmd.Example))
	}
	p.writeLinks(cmd)
	p.writeSections(cmd)
	files[pageName(cmd)+".md"] = p.Bytes()
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !isOther(c) {
			addReference(files, c)
		}
	}
}

// pageName returns the name of the page of a command, without suffix. Commands that replay-live runs have pages of
// replay-live.
func pageName(cmd *cobra.Command) string {
	path := strings.Split(cmd.CommandPath(), " ")
	if cmd.DisableFlagParsing && cmd.HasParent() {
		path[0] += "-live"
	}
	return strings.Join(path, "-")
}

// writeParagraphs writes a text. writeParagraphs writes indented paragraphs as code blocks.
func (p *page) writeParagraphs(text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		switch {
		case paragraph == "":
		case strings.HasPrefix(paragraph, " "):
			p.writeLine("%s\n", indentText(paragraph))
		default:
			p.writeLine("%s\n", escapeMarkdown(paragraph))
		}
	}
}

// writeLinks lists the subcommands of cmd with links, grouped by title.
func (p *page) writeLinks(cmd *cobra.Command) {
	title := ""
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		job := "Commands"
		if c.GroupID != "" {
			job = strings.TrimSuffix(c.GroupID, ":")
		}
		if job != title {
			p.writeLine("\n## %s\n", escapeMarkdown(job))
			title = job
		}
		p.writeLine("- [%s](%s.md): %s", c.Name(), pageName(c), escapeMarkdown(c.Short))
	}
	p.writeLine("")
}

// writeSections writes all flags that are not hidden, grouped by section of the help.
func (p *page) writeSections(cmd *cobra.Command) {
	for _, title := range append(cli.TitlesOf(cmd), "") {
		heading := "## " + escapeMarkdown(cmp.Or(title, "Help")) + "\n"
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Deprecated != "" || cli.TitleOf(cmd, f.Name) != title {
				return
			}
			if heading != "" {
				p.writeLine("%s", heading)
				heading = ""
			}
			one := pflag.NewFlagSet("", pflag.ContinueOnError)
			one.AddFlag(f)
			name, usage, _ := strings.Cut(strings.TrimSpace(one.FlagUsages()), "   ")
			p.writeLine("`%s`\n: %s\n", name, escapeMarkdown(strings.TrimSpace(usage)))
		})
	}
}

// indentText returns text as an indented Markdown code block.
func indentText(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("    "+strings.TrimPrefix(line, "  "), " ")
	}
	return strings.Join(lines, "\n")
}

// escapeMarkdown escapes all characters of text that Markdown would interpret.
func escapeMarkdown(text string) string {
	lines := strings.Split(regexp.MustCompile("[\\\\`*_\\[\\]<>#|~$]").ReplaceAllString(text, `\$0`), "\n")
	for i, line := range lines {
		line = strings.TrimLeft(line, " ")
		if regexp.MustCompile(`^([-+:=]|[0-9]+[.)])`).MatchString(line) {
			line = fmt.Sprintf(`\%s`, line)
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}
