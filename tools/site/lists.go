package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
)

// makeLists makes the pages of engine arguments, of flags of other tools, and of the tables of accuracy.
func (s *site) makeLists() error {
	tables, err := os.ReadFile(filepath.Join(s.root, "internal", "accuracy", accuracy.TablesName))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"engine-arguments": writeSettings(), "other-tools": writeOtherTools(), "accuracy-tables": string(tables)} {
		if err := s.write("reference/"+name+".md", []byte(s.linkDocuments(text))); err != nil {
			return err
		}
	}
	return nil
}

// linkDocuments returns the text of a reference page with links for the names of documents.
func (s *site) linkDocuments(text string) string {
	return regexp.MustCompile(`(docs/[a-z0-9/-]+\.md)(#[a-z0-9-]+)?`).ReplaceAllStringFunc(text, func(name string) string {
		page, anchor, anchored := strings.Cut(name, "#")
		if s.places[page] == "" {
			return name
		}
		if anchored {
			anchor = "#" + anchor
		}
		return fmt.Sprintf("[%s](../%s%s)", page, s.places[page], anchor)
	})
}

// writeSettings returns the page of engine arguments, with the content of replay settings.
func writeSettings() string {
	var b strings.Builder
	b.WriteString("# List of engine arguments\n\nMade from the program when this site was built; `replay settings` prints the same. docs/hardware.md has the rules behind them.\n")
	for _, g := range options.GroupSettings() {
		fmt.Fprintf(&b, "\n## %s\n\n| Key | Flag | Unit | Default | Meaning |\n| --- | --- | --- | --- | --- |\n", g.Title)
		for i := range g.Rows {
			r, key, flag := &g.Rows[i], "", ""
			if r.Key != "" {
				key = "`" + r.Key + "`"
			}
			if r.Flag != "" {
				flag = "`--" + r.Flag + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", key, flag, r.Unit(), r.DefaultText(), r.Meaning())
		}
	}
	return b.String()
}

// writeOtherTools returns the page of flags of other tools.
func writeOtherTools() string {
	var tools []string
	rows := make(map[string]string)
	for _, f := range cli.OtherFlags() {
		here := "none"
		if f.Here != "" {
			here = "`" + f.Here + "`"
		}
		for tool := range strings.SplitSeq(f.Tool, ",") {
			if !slices.Contains(tools, tool) {
				tools = append(tools, tool)
			}
			rows[tool] += fmt.Sprintf("| `--%s` | %s | %s |\n", f.Name, here, f.Note)
		}
	}
	text := "# Flags of other tools\n\nMade from the program when this site was built. A flag without a difference works under both names; docs/coming-from.md has more.\n"
	for _, tool := range tools {
		text += "\n## " + tool + "\n\n| Flag | Here | Difference |\n| --- | --- | --- |\n" + rows[tool]
	}
	return text
}
