package tidy

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// Texts contain no marks of unfinished work, no paths of a single machine and no references to an issue tracker.
func TestWords(t *testing.T) {
	rules := []struct {
		what    string
		pattern *regexp.Regexp
	}{
		{"unfinished work", regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)},
		{"a path of one machine", regexp.MustCompile(`(^|[\s"'(=])/(root|home|work|Users)/`)},
		{"a number in a tracker", regexp.MustCompile(`(?i)\b(issue|pull request|ticket) #?\d+|/(issues|pull)/\d+`)},
		{"an error that says no more than that it is one", regexp.MustCompile(`(Errorf|errors\.New)\("[^"]*[Ff]ailed to`)},
	}
	names := regexp.MustCompile(`(?i)(manager|helper|utils?|common|misc)(_test)?\.go$`)
	checked := 0
	for _, name := range listFiles(t) {
		if names.MatchString(name) {
			t.Errorf("%s: a file is named after what is in it", name)
		}
		switch path.Ext(name) {
		case ".go", ".md", ".yml", ".yaml", ".sh", ".txt", "":
		default:
			continue
		}
		if strings.HasPrefix(name, "internal/tidy/") || path.Base(name) == "LICENSE" {
			continue
		}
		checked++
		for n, line := range strings.Split(readFile(t, name), "\n") {
			for _, rule := range rules {
				if m := rule.pattern.FindString(line); m != "" {
					t.Errorf("%s:%d: %q: %s", name, n+1, m, rule.what)
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("%d files checked, want all of them", checked)
	}
}
