package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// repository is the URL prefix of files of the checkout that are not pages.
const repository = "https://github.com/replay-llm/replay/"

// rewriteLinks returns the text of a page with links that are correct on the site. Links to pages and pictures are
// relative. All other links lead to the repository.
func (s *site) rewriteLinks(from, text string) (string, error) {
	link := regexp.MustCompile(`(\]\()([^()\s]+)(\))`)
	lines := strings.SplitAfter(text, "\n")
	var wrong error
	fence := false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fence = !fence
			continue
		}
		if fence {
			continue
		}
		lines[i] = link.ReplaceAllStringFunc(line, func(m string) string {
			target, err := s.rewriteLink(from, m[2:len(m)-1])
			if err != nil && wrong == nil {
				wrong = fmt.Errorf("%s:%d: %w", from, i+1, err)
			}
			return "](" + target + ")"
		})
	}
	return strings.Join(lines, ""), wrong
}

// rewriteLink returns the new target of a link of a page.
func (s *site) rewriteLink(from, target string) (string, error) {
	if strings.HasPrefix(target, "#") || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return target, nil
	}
	name, anchor, anchored := strings.Cut(target, "#")
	if anchored {
		anchor = "#" + anchor
	}
	name = path.Join(path.Dir(from), name)
	there, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(name)))
	if err != nil {
		return "", fmt.Errorf("%s: %s is not there", target, name)
	}
	if there.IsDir() && s.places[name+"/README.md"] != "" {
		name += "/README.md"
	}
	to, ok := s.places[name]
	switch {
	case ok:
		relative, err := filepath.Rel(filepath.FromSlash(path.Dir(s.places[from])), filepath.FromSlash(to))
		return filepath.ToSlash(relative) + anchor, err
	case there.IsDir():
		return repository + "tree/main/" + name, nil
	default:
		return repository + "blob/main/" + name + anchor, nil
	}
}
