package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// site is a site during its build.
type site struct {
	root   string            // the checkout
	source string            // source folder of Sphinx
	places map[string]string // path in source of each copied file, by path in the checkout
}

// layOut copies the pages of the checkout to the source folder and adds the navigation.
func (s *site) layOut() error {
	if err := os.RemoveAll(s.source); err != nil {
		return err
	}
	if err := s.findPages(); err != nil {
		return err
	}
	for _, from := range slices.Sorted(maps.Keys(s.places)) {
		text, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(from)))
		if err != nil {
			return err
		}
		if path.Ext(from) == ".md" {
			page, err := s.rewriteLinks(from, string(text))
			if err != nil {
				return err
			}
			text = []byte(page)
		}
		if err := s.write(s.places[from], text); err != nil {
			return err
		}
	}
	return s.addNavigation()
}

// findPages finds the documents and their pictures. The documents are all files below docs, documents of the root (in
// the folder project), and the files of the theme.
func (s *site) findPages() error {
	s.places = make(map[string]string)
	for _, name := range []string{"ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"} {
		s.places[name] = "project/" + name
	}
	s.places["tools/site/conf.py"] = "conf.py"
	for _, name := range []string{"site.css", "site.js"} {
		s.places["tools/site/static/"+name] = "_static/" + name
	}
	return filepath.WalkDir(filepath.Join(s.root, "docs"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(name) {
		case ".md", ".png", ".svg":
		default:
			return nil
		}
		from, err := filepath.Rel(s.root, name)
		from = filepath.ToSlash(from)
		s.places[from] = strings.TrimPrefix(from, "docs/")
		return err
	})
}

// write writes a file of the source folder.
func (s *site) write(name string, text []byte) error {
	file := filepath.Join(s.source, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// read reads a file of the source folder.
func (s *site) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.source, filepath.FromSlash(name)))
	return string(text), err
}

// change replaces a page of the source folder by the result of edit.
func (s *site) change(name string, edit func(string) (string, error)) error {
	text, err := s.read(name)
	if err == nil {
		text, err = edit(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return s.write(name, []byte(text))
}
