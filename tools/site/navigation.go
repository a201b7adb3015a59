package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// entry is a page in the navigation.
type entry struct {
	title, page string   // page: path in the source folder
	below       []*entry // child pages in the navigation
}

// chapter is a part of the navigation.
type chapter struct {
	title   string
	entries []*entry
}

// madePages returns the list items of generated pages, by the chapter that lists them.
func madePages() map[string][]string {
	return map[string][]string{
		"Reference": {
			"- [Commands of replay](reference/commands/replay.md): every flag of every command\n",
			"- [Commands of replay-live](reference/commands/replay-live.md): the same of the program that serves\n",
			"- [Keys of the report](reference/report-keys.md): each key of the JSON report, with an example\n",
			"- [List of engine arguments](reference/engine-arguments.md): key, flag, unit, default and meaning\n",
			"- [Flags of other tools](reference/other-tools.md): what they are called here\n",
			"- [Tables of accuracy](reference/accuracy-tables.md): errors by group of servers\n",
		},
	}
}

// addNavigation makes the navigation from the lists of docs/index.md. Each heading with a list is a chapter, and each
// item is a page. Indented items are child pages.
func (s *site) addNavigation() error {
	return s.change("index.md", func(text string) (string, error) {
		text = addMadePages(text)
		chapters, err := readChapters(text)
		if err != nil {
			return "", err
		}
		text = writeLanding(text)
		for _, c := range chapters {
			if len(c.entries) == 0 {
				continue
			}
			text += writeToctree(c.title, ".", c.entries)
			for _, e := range c.entries {
				if err := s.addBelow(e); err != nil {
					return "", err
				}
			}
		}
		return text, nil
	})
}

// writeLanding returns the first page of the site: the text before the lists. The navigation shows the lists.
func writeLanding(text string) string {
	head, _, _ := strings.Cut(text, "\n## ")
	row := regexp.MustCompile(`(?m)^\| \[([^\]]+)\]\(([^)]+)\.md\) \| ([^|]+) \|$\n?`)
	boxes := row.FindAllStringSubmatch(head, -1)
	if len(boxes) == 0 {
		return head + "\n"
	}
	var b strings.Builder
	b.WriteString("<div class=\"jobs\">\n")
	for _, m := range boxes {
		fmt.Fprintf(&b, "<a href=\"%s.html\"><strong>%s</strong> %s</a>\n", m[2], m[1], m[3])
	}
	b.WriteString("</div>\n")
	return regexp.MustCompile(`(?m)^\|.*\|\n(?:\|.*\|\n?)+`).ReplaceAllLiteralString(head, b.String()) + "\n"
}

// addBelow adds the child pages of a page to the navigation.
func (s *site) addBelow(e *entry) error {
	if len(e.below) == 0 {
		return nil
	}
	return s.change(e.page, func(text string) (string, error) {
		return text + writeToctree("", path.Dir(e.page), e.below), nil
	})
}

// addMadePages adds the generated pages to the lists of their chapters.
func addMadePages(text string) string {
	for title, items := range madePages() {
		head, rest, ok := strings.Cut(text, "\n## "+title+"\n\n")
		if ok {
			text = head + "\n## " + title + "\n\n" + strings.Join(items, "") + rest
		}
	}
	return text
}

// readChapters reads the lists of docs/index.md.
func readChapters(text string) ([]chapter, error) {
	item := regexp.MustCompile(`^( *)- \[([^\]]+)\]\(([^)#]+)\)`)
	var all []chapter
	for i, line := range strings.Split(text, "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			all = append(all, chapter{title: title})
			continue
		}
		m := item.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("line %d: a page before the first heading", i+1)
		}
		last := &all[len(all)-1]
		e := &entry{title: m[2], page: path.Clean(m[3])}
		if m[1] == "" {
			last.entries = append(last.entries, e)
			continue
		}
		if len(last.entries) == 0 {
			return nil, fmt.Errorf("line %d: a page below none", i+1)
		}
		above := last.entries[len(last.entries)-1]
		above.below = append(above.below, e)
	}
	return all, nil
}

// writeToctree returns the directive that adds pages to the navigation. dir is the folder of the page with the
// directive.
func writeToctree(caption, dir string, entries []*entry) string {
	var b strings.Builder
	b.WriteString("\n```{toctree}\n:hidden:\n")
	if caption != "" {
		fmt.Fprintf(&b, ":caption: %s\n", caption)
	}
	b.WriteString("\n")
	for _, e := range entries {
		page := e.page
		if dir != "." {
			page = "/" + page
		}
		fmt.Fprintf(&b, "%s <%s>\n", e.title, page)
	}
	b.WriteString("```\n")
	return b.String()
}
