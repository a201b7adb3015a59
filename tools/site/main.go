// Command site builds the documentation as HTML pages. The command copies the pages of docs and the documents of the
// root. The command generates pages of commands, engine arguments, flags of other tools, errors and report keys, and
// of the runs in docs/explore.md. Sphinx renders the pages. Then the command checks every link and anchor, and that
// no page loads a resource from a different host. CONTRIBUTING.md describes its use.
//
// MkDocs could replace only Sphinx (sphinx.go). Command site would still generate pages and check the anchors and
// hosts of the finished pages. The search of MkDocs works on file:// only with the offline plugin of one theme. The
// search of Sphinx does not require a plugin.
//
// Read main.go, layout.go, links.go, navigation.go, reference.go, lists.go, keys.go,
// gallery.go, sphinx.go, search.go, check.go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func main() {
	out := flag.String("out", "bin/site", "the `folder` to write to; the site that is there is replaced")
	work := flag.String("work", "bin/site-work", "the `folder` for intermediate files: Sphinx, the pages as it takes them")
	python := flag.String("python", "python3", "the `program` that installs and runs Sphinx, Python 3.11 or later")
	only := flag.String("check", "", "only check the site in a `folder`")
	flag.Parse()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("%s: must be no arguments", flag.Arg(0))
	case *only != "":
		err = reportCheck(*only)
	default:
		err = makeSite(".", *work, *out, *python)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// makeSite builds and checks the site of the checkout root in the folder out.
func makeSite(root, work, out, python string) error {
	if err := checkFolder(out); err != nil {
		return err
	}
	s := &site{root: root, source: filepath.Join(work, "source")}
	steps := []struct {
		name string
		run  func() error
	}{
		{"install Sphinx", func() error { return installSphinx(root, work, python) }},
		{"lay out the pages", s.layOut},
		{"make the reference", s.makeReference},
		{"run the gallery", func() error { return s.makeGallery(filepath.Join(work, "gallery")) }},
		{"set the pages", func() error { return runSphinx(work, s.source, out) }},
		{"write the excerpts", func() error { return writeSearchTexts(out) }},
		{"check the links", func() error { return reportCheck(out) }},
	}
	began := time.Now()
	for _, step := range steps {
		start := time.Now()
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%-20s %6.1f s\n", step.name, time.Since(start).Seconds())
	}
	fmt.Printf("%s is there after %.1f s: open %s\n", out, time.Since(began).Seconds(), filepath.Join(out, "index.html"))
	return nil
}

// checkFolder rejects a folder with content that is not a site.
func checkFolder(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, "searchindex.js")); err != nil && len(entries) > 0 {
		return fmt.Errorf("-out %s: holds something else than a site, must be a new folder", out)
	}
	return nil
}
