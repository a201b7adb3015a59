package wheel

import (
	"cmp"
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

// versionFile is query_versions.yaml: the current release of each engine for the tables of each system.
type versionFile struct {
	Defaults  map[string]slot            `yaml:"defaults"`
	Overrides map[string]map[string]slot `yaml:"overrides"`
	lanes     map[string]map[string]map[int]string
}

type slot struct {
	Current string `yaml:"current"`
}

// readVersions reads the current releases and the default kernels. If a directory lacks these files, the newest
// release is current, and kernels are chosen by their number of rows.
func (w *Wheel) readVersions() error {
	if err := w.readYAML("query_versions.yaml", &w.versions); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.readYAML("attention_lane_defaults.yaml", &w.versions.lanes); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// current returns the current release of an engine on a system, or "" if the file names none.
func (v *versionFile) current(system, engine string) string {
	if s, ok := v.Overrides[system][engine]; ok {
		return s.Current
	}
	return v.Defaults[engine].Current
}

// Current returns the current release of an engine on a system, or "" if there is none and the newest is used.
func (w *Wheel) Current(system, engine string) string { return w.versions.current(system, engine) }

// Kernel returns the default attention kernel of an engine's release on GPUs of an SM version, or "" if it is
// unknown.
func (w *Wheel) Kernel(engine, release string, sm int) string {
	return w.versions.lanes[engine][release][sm]
}

// compareVersions compares releases: 1.3.0rc5 < 1.3.0rc20 < 1.3.0 < 1.3.0.post1 < 1.3.1.
func compareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y int
		x, a = nextPart(a)
		y, b = nextPart(b)
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// nextPart returns the first part of a release as a number, and the remaining text. The end of a release sorts
// between rc and post.
func nextPart(v string) (int, string) {
	const end, post = -1, 0
	v = strings.TrimLeft(v, ".-_+")
	digits := 0
	for digits < len(v) && v[digits] >= '0' && v[digits] <= '9' {
		digits++
	}
	if digits > 0 {
		n, err := strconv.Atoi(v[:digits])
		if err != nil {
			n = 1 << 62
		}
		return n + 1, v[digits:]
	}
	letters := 0
	for letters < len(v) && (v[letters] < '0' || v[letters] > '9') && !strings.ContainsRune(".-_+", rune(v[letters])) {
		letters++
	}
	switch v[:letters] {
	case "":
		return end, ""
	case "post":
		return post, v[letters:]
	case "dev":
		return -4, v[letters:]
	case "a", "alpha":
		return -3, v[letters:]
	}
	return -2, v[letters:]
}
