// Package licenses collects the licenses of the modules that a program is linked with.
package licenses

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Join returns the texts of the licenses and notices of all modules. The map has the folder of each module by its
// name.
func Join(modules map[string]string) ([]byte, error) {
	legal := regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		entries, err := os.ReadDir(modules[name])
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !legal.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(modules[name], e.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "==== %s: %s\n\n%s\n\n", name, e.Name(), bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
			found = true
		}
		if !found {
			return nil, fmt.Errorf("%s: no license in %s", name, modules[name])
		}
	}
	return b.Bytes(), nil
}
