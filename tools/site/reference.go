package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// makeReference generates the reference pages from the programs: pages of commands, of lists, and of report keys.
func (s *site) makeReference() error {
	names := make(map[string]string) // texts of the pages, by name
	for _, program := range []string{"./cmd/replay", "./live/cmd/replay-live"} {
		dir, err := os.MkdirTemp("", "site-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := run(s.root, "go", "run", program+"/manual", "-markdown", "-out", dir); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.md"))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			names[filepath.Base(file)] = string(text)
		}
	}
	for name, text := range names {
		if err := s.write("reference/commands/"+name, []byte(s.setCommand(text))); err != nil {
			return err
		}
	}
	if err := s.makeLists(); err != nil {
		return err
	}
	return s.makeKeys()
}

// setCommand returns the page of a command with links for the names of documents. setCommand adds the subcommands to
// the navigation.
func (s *site) setCommand(text string) string {
	document := regexp.MustCompile(`docs/[a-z0-9/-]+\.md`)
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "#") {
			continue
		}
		lines[i] = document.ReplaceAllStringFunc(line, func(name string) string {
			if s.places[name] == "" {
				return name
			}
			return fmt.Sprintf("[%s](../../%s)", name, s.places[name])
		})
	}
	text = strings.Join(lines, "")
	var below []*entry
	program, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
	for _, m := range regexp.MustCompile(`(?m)^- \[([^\]]+)\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
		if program == "replay" && strings.HasPrefix(m[2], "replay-live-") {
			continue // the page is a child of replay-live
		}
		below = append(below, &entry{title: m[1], page: m[2]})
	}
	if len(below) == 0 {
		return text
	}
	return text + writeToctree("", ".", below)
}
