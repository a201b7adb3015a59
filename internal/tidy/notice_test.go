package tidy

import (
	"strings"
	"testing"
)

// NOTICE lists the origin of every file of test data. All files that NOTICE lists exist.
func TestNoticeNamesTestdata(t *testing.T) {
	used := make(map[string]bool)
	for line := range strings.Lines(readFile(t, "NOTICE")) {
		if name := strings.TrimRight(line, "\n"); strings.HasPrefix(name, "testdata/") || strings.Contains(name, "/testdata/") {
			used[name] = false
		}
	}
	for _, name := range listTestdata(t) {
		longest := ""
		for named := range used {
			if (name == named || strings.HasSuffix(named, "/") && strings.HasPrefix(name, named)) && len(named) > len(longest) {
				longest = named
			}
		}
		if longest == "" {
			t.Errorf("%s: NOTICE does not name its folder: add its origin and license", name)
			continue
		}
		used[longest] = true
	}
	for named, found := range used {
		if !found {
			t.Errorf("NOTICE: %s names no file", named)
		}
	}
}

// listTestdata returns all files in testdata folders, relative to the root of the repository.
func listTestdata(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range walkFiles(t, ".git", "bin", "dist") {
		if strings.HasPrefix(name, "testdata/") || strings.Contains(name, "/testdata/") {
			all = append(all, name)
		}
	}
	if len(all) < 300 {
		t.Errorf("%d files, want all", len(all))
	}
	return all
}
