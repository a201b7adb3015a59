// Vale checks the prose of the project with Vale and the style in .vale: Markdown, the comments of Go files, and the
// texts that Go programs print. This command is a separate module, so that the programs of the project do not depend
// on Vale.
//
// The file counts.txt has the allowed number of alerts per kind and folder. More alerts are an error; -update writes
// lower numbers. Without a line, no alerts are allowed.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	update := flag.Bool("update", false, "write the counts that are lower now")
	list := flag.String("list", "", "print the alerts of files under this `path` and exit")
	program := flag.String("vale", "", "the `program` Vale; default: build the release of go.mod")
	flag.Parse()
	if err := run(os.Stdout, options{*update, *list, *program}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	update  bool
	list    string
	program string
}

const (
	root   = "../.."
	counts = "counts.txt"
)

// alert is an alert of Vale at a line of the project.
type alert struct {
	count
	place, text string
}

// count identifies a line of counts.txt: the alerts of a level in texts of a kind below a folder.
type count struct{ kind, folder, level string }

func (c count) String() string { return c.kind + " " + c.folder + " " + c.level }

// run checks the project. The working directory must be two levels below its root.
func run(w io.Writer, o options) error {
	scratch, err := os.MkdirTemp("", "vale")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if o.program == "" {
		o.program = filepath.Join(scratch, "vale")
		build := exec.Command("go", "build", "-o", o.program, "github.com/vale-cli/vale/v3/cmd/vale")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("vale cannot be built: %w\n%s", err, out)
		}
	}
	texts := filepath.Join(scratch, "texts")
	files, err := writeTexts(texts)
	if err != nil {
		return err
	}
	alerts, err := listAlerts(o.program, texts, files)
	if err != nil {
		return err
	}
	if o.list != "" {
		for _, a := range alerts {
			if strings.HasPrefix(a.place, o.list) {
				fmt.Fprintf(w, "%s: %s: %s: %s\n", a.place, a.kind, a.level, a.text)
			}
		}
		return nil
	}
	return checkCounts(w, alerts, o.update)
}

// listAlerts returns the alerts of Vale for the files in dir, by place.
func listAlerts(program, dir string, files map[string]source) ([]alert, error) {
	config, err := filepath.Abs(filepath.Join(root, ".vale", "vale.ini"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "--config="+config, "--output=JSON", "--no-exit", ".")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("vale: %w\n%s", err, out)
	}
	var found map[string][]struct {
		Line                     int
		Check, Message, Severity string
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("vale prints no JSON: %w", err)
	}
	var alerts []alert
	for name, all := range found {
		s, ok := files[filepath.ToSlash(filepath.Clean(name))]
		if !ok {
			return nil, fmt.Errorf("vale reports a file that it was not given: %s", name)
		}
		for _, a := range all {
			place := fmt.Sprintf("%s:%d", s.name, s.line(a.Line))
			alerts = append(alerts, alert{count{s.kind, folderOf(s.name), a.Severity + "s"}, place, a.Message})
		}
	}
	slices.SortFunc(alerts, func(a, b alert) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.text, b.text)) })
	return alerts, nil
}

// folderOf returns the first two folders of a path, "." for a file of the root.
func folderOf(name string) string {
	parts := strings.Split(path.Dir(name), "/")
	return path.Join(parts[:min(len(parts), 2)]...)
}

// checkCounts returns an error for the counts that exceed the allowed counts. checkCounts prints or writes the lower
// counts.
func checkCounts(w io.Writer, alerts []alert, update bool) error {
	allowed, err := readCounts()
	if err != nil {
		return err
	}
	found, total := make(map[count]int), make(map[count]int)
	for _, a := range alerts {
		found[a.count]++
		total[count{a.kind, "", a.level}]++
	}
	for _, c := range sortCounts(total) {
		fmt.Fprintf(w, "%s: %d %s\n", c.kind, total[c], c.level)
	}
	var wrong []error
	for _, c := range sortCounts(found) {
		if found[c] <= allowed[c] {
			continue
		}
		wrong = append(wrong, fmt.Errorf("%s: %d, must be at most %d", c, found[c], allowed[c]))
		for _, a := range alerts {
			if a.count == c {
				wrong = append(wrong, fmt.Errorf("  %s: %s", a.place, a.text))
			}
		}
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	lower := 0
	for c, n := range allowed {
		if found[c] < n {
			lower++
		}
	}
	if update {
		return writeCounts(found)
	}
	if lower > 0 {
		fmt.Fprintf(w, "%d counts are lower than in .ci/vale/%s: write them with -update\n", lower, counts)
	}
	return nil
}

func sortCounts(counts map[count]int) []count {
	var all []count
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b count) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// readCounts returns the allowed counts.
func readCounts() (map[count]int, error) {
	text, err := os.ReadFile(counts)
	if err != nil {
		return nil, err
	}
	allowed := make(map[count]int)
	for line := range strings.Lines(string(text)) {
		var c count
		var n int
		if _, err := fmt.Sscanf(line, "%s %s %s %d", &c.kind, &c.folder, &c.level, &n); err != nil {
			return nil, fmt.Errorf("%s: %q: must be a kind, a folder, a level and a number", counts, line)
		}
		allowed[c] = n
	}
	return allowed, nil
}

func writeCounts(found map[count]int) error {
	var b strings.Builder
	for _, c := range sortCounts(found) {
		fmt.Fprintf(&b, "%s %d\n", c, found[c])
	}
	return os.WriteFile(counts, []byte(b.String()), 0o644)
}
