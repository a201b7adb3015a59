package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// writeSearchTexts writes searchtexts.js of the site in a folder. The file contains the text of each page for the
// excerpts of the search.
func writeSearchTexts(dir string) error {
	texts := make(map[string]string)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		text, err := readArticle(file)
		if text != "" {
			texts[filepath.ToSlash(name)] = text
		}
		return err
	})
	if err != nil {
		return err
	}
	list, err := json.Marshal(texts)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "searchtexts.js"), []byte("const searchTexts = "+string(list)+";\n"), 0o644)
}

// readArticle returns the words of the article of a page; "": the page has no article.
func readArticle(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	root, err := html.Parse(f)
	if err != nil {
		return "", err
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "article" {
			var words []string
			addWords(n, &words)
			return strings.Join(words, " "), nil
		}
	}
	return "", nil
}

// addWords adds the words below n. addWords omits heading marks, scripts and styles.
func addWords(n *html.Node, words *[]string) {
	if n.Type == html.TextNode {
		*words = append(*words, strings.Fields(n.Data)...)
	}
	if n.Data == "script" || n.Data == "style" || slices.Contains(n.Attr, html.Attribute{Key: "class", Val: "headerlink"}) {
		return
	}
	for c := range n.ChildNodes() {
		addWords(c, words)
	}
}
