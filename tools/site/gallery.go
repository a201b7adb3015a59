package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/replay-llm/replay/internal/script"
)

// makeGallery runs the commands of the gallery in docs/explore.md in the folder work. makeGallery adds the resulting
// pages to the sections of their commands.
func (s *site) makeGallery(work string) error {
	if err := s.enterGallery(work); err != nil {
		return err
	}
	return s.change("explore.md", func(text string) (string, error) {
		sections := strings.Split(text, "\n### ")
		shown := 0
		for i, section := range sections {
			for _, block := range script.Blocks(section) {
				for _, c := range block.Cases {
					if err := runCase(work, c.Command); err != nil {
						return "", err
					}
				}
			}
			for _, name := range listLeft(section) {
				page, err := s.showPage(work, name, section)
				if err != nil {
					return "", err
				}
				sections[i] += page
				shown++
			}
		}
		if shown == 0 {
			return "", errors.New("no command leaves a page")
		}
		return strings.Join(sections, "\n### "), nil
	})
}

// enterGallery makes the folder in which the commands run. The folder has the test data, the files of cmd, and the
// program in the folder bin.
func (s *site) enterGallery(work string) error {
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(work, "bin"), 0o755); err != nil {
		return err
	}
	root, err := filepath.Abs(s.root)
	if err != nil {
		return err
	}
	for _, name := range []string{"testdata", "cmd"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(work, name)); err != nil {
			return err
		}
	}
	bin, err := filepath.Abs(filepath.Join(work, "bin"))
	if err != nil {
		return err
	}
	return run(s.root, "go", "build", "-trimpath", "-o", bin, "./cmd/replay")
}

// runCase runs a command of a page in a shell.
func runCase(work, command string) error {
	bin, err := filepath.Abs(filepath.Join(work, "bin"))
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("$ %s: %w\n%s", command, err, text)
	}
	return nil
}

// listLeft returns the names of the pages that the commands of a section write.
func listLeft(section string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`--(?:html|out) (\S+\.html)`).FindAllStringSubmatch(section, -1) {
		names = append(names, m[1])
	}
	return names
}

// showPage copies a page of a command to the site, and returns the text that embeds it.
func (s *site) showPage(work, name, section string) (string, error) {
	text, err := os.ReadFile(filepath.Join(work, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	to := "gallery/" + path.Base(name)
	if err := s.write("_extra/"+to, text); err != nil {
		return "", err
	}
	title, _, _ := strings.Cut(section, "\n")
	return fmt.Sprintf("\n<p><a href=\"%s\">Open the page alone</a> (%d KB, needs no network)</p>\n<iframe class=\"sample\" src=\"%[1]s\" title=\"%[3]s\" loading=\"lazy\"></iframe>\n",
		to, (len(text)+999)/1000, strings.ReplaceAll(title, `"`, "&quot;")), nil
}
