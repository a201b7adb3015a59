package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// checker contains the links of a site and their possible targets.
type checker struct {
	files   map[string]bool            // existing files by path from the root of the site
	anchors map[string]map[string]bool // anchors of each page
	links   []link
	wrong   []string
}

// link is a reference in a page.
type link struct {
	page, tag, target string
	loads             bool // the browser loads the target with the page
}

// reportCheck checks the site in a folder and prints the number of checked links.
func reportCheck(dir string) error {
	c, err := checkSite(dir)
	if err != nil {
		return err
	}
	if len(c.anchors) == 0 {
		return fmt.Errorf("%s: there are no pages", dir)
	}
	inside := 0
	for _, l := range c.links {
		if !strings.Contains(l.target, "://") {
			inside++
		}
	}
	fmt.Printf("%d pages, %d links, %d of them within the site\n", len(c.anchors), len(c.links), inside)
	if len(c.wrong) > 0 {
		return errors.New(strings.Join(c.wrong, "\n"))
	}
	return nil
}

// checkSite reads all pages and style sheets of a site and checks their links.
func checkSite(dir string) (*checker, error) {
	c := &checker{files: make(map[string]bool), anchors: make(map[string]map[string]bool)}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		c.files[name] = true
		switch path.Ext(name) {
		case ".html":
			return c.readPage(file, name)
		case ".css":
			return c.readSheet(file, name)
		}
		return nil
	})
	for _, l := range c.links {
		c.follow(l)
	}
	slices.Sort(c.wrong)
	c.wrong = slices.Compact(c.wrong)
	return c, err
}

// readPage reads the anchors and the links of a page.
func (c *checker) readPage(file, name string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := html.Parse(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.anchors[name] = map[string]bool{"": true, "top": true}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			c.readElement(n, name)
		}
	}
	return nil
}

// readElement reads the anchors and the links of an element.
func (c *checker) readElement(n *html.Node, page string) {
	if n.Namespace == "svg" && n.Data != "image" && n.Data != "a" {
		return // the element use refers to elements of the same page
	}
	attributes := make(map[string]string)
	for _, a := range n.Attr {
		attributes[a.Key] = a.Val
	}
	for _, key := range []string{"id", "name"} {
		if v, ok := attributes[key]; ok {
			c.anchors[page][v] = true
		}
	}
	switch n.Data {
	case "a", "area":
		c.add(page, n.Data, attributes, "href", false)
	case "link":
		rel := attributes["rel"]
		c.add(page, n.Data, attributes, "href", rel != "canonical" && rel != "alternate")
	case "img":
		if strings.TrimSpace(attributes["alt"]) == "" {
			c.wrong = append(c.wrong, fmt.Sprintf("%s: the picture %s has no text (alt)", page, attributes["src"]))
		}
		c.add(page, n.Data, attributes, "src", true)
	case "script", "iframe", "source", "audio", "video", "embed", "image":
		c.add(page, n.Data, attributes, "src", true)
		c.add(page, n.Data, attributes, "href", true)
	case "object":
		c.add(page, n.Data, attributes, "data", true)
	}
}

// add adds the link in an attribute, if the attribute exists.
func (c *checker) add(page, tag string, attributes map[string]string, key string, loads bool) {
	if target, ok := attributes[key]; ok {
		c.links = append(c.links, link{page, tag, strings.TrimSpace(target), loads})
	}
}

// readSheet reads the links in a style sheet.
func (c *checker) readSheet(file, name string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, m := range regexp.MustCompile(`(?:url\(\s*["']?|@import\s+["'])([^"')\s]+)`).FindAllStringSubmatch(string(text), -1) {
		c.links = append(c.links, link{name, "url", m[1], true})
	}
	return nil
}

// follow checks a link and records errors.
func (c *checker) follow(l link) {
	wrong := func(format string, args ...any) {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: <%s> %s: ", l.page, l.tag, l.target)+fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(l.target)
	switch {
	case err != nil:
		wrong("%v", err)
		return
	case u.Scheme == "data" || u.Scheme == "mailto":
		return
	case u.Scheme != "" || u.Host != "":
		if l.loads {
			wrong("comes from another host")
		} else if u.Scheme != "https" && u.Scheme != "http" {
			wrong("must be https, or a page of the site")
		}
		return
	case strings.HasPrefix(u.Path, "/"):
		wrong("must be a path from the page, which holds wherever the site is put")
		return
	}
	target := l.page
	if u.Path != "" {
		target = path.Join(path.Dir(l.page), u.Path)
	}
	if !c.files[target] {
		wrong("%s is not there", target)
		return
	}
	if anchors, ok := c.anchors[target]; ok && !anchors[u.Fragment] {
		wrong("%s has no anchor #%s", target, u.Fragment)
	}
}
