package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/licenses"
)

// platform is an operating system and a processor with their names in Go.
type platform struct{ system, processor string }

func (p platform) String() string { return p.system + "/" + p.processor }

// release is a release of a commit.
type release struct {
	root      string // the repository
	source    string // a clean checkout of the commit
	commit    string
	version   string // tag without the v, or devel- and the start of the commit hash
	time      time.Time
	platforms []platform

	onlyWheels bool
}

// listPlatforms returns all platforms of a release.
func listPlatforms() []platform {
	var all []platform
	for _, system := range []string{"linux", "darwin", "windows"} {
		all = append(all, platform{system, "amd64"}, platform{system, "arm64"})
	}
	return all
}

// listPrograms returns the programs of a release.
func listPrograms() []string { return []string{"replay", "replay-live"} }

// folderOf returns the folder of a program in the repository.
func folderOf(program string) string {
	if program == "replay-live" {
		return "./live/cmd/" + program
	}
	return "./cmd/" + program
}

// newRelease returns the release of a commit of the repository at root. No platforms means all platforms.
func newRelease(root, commit string, platforms []string) (*release, error) {
	r := &release{root: root}
	if len(platforms) == 0 {
		r.platforms = listPlatforms()
	}
	for _, name := range platforms {
		system, processor, ok := strings.Cut(name, "/")
		if !ok || !slices.Contains(listPlatforms(), platform{system, processor}) {
			return nil, fmt.Errorf("--platforms: %q: must be linux, darwin or windows, and /amd64 or /arm64", name)
		}
		r.platforms = append(r.platforms, platform{system, processor})
	}
	text, err := r.run(root, nil, "git", "show", "-s", "--format=%H %ct", commit)
	if err != nil {
		return nil, err
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(text), " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: time of the commit: %w", commit, err)
	}
	r.commit, r.time = hash, time.Unix(at, 0).UTC()
	tags, err := r.run(root, nil, "git", "-c", "versionsort.suffix=-", "tag", "--points-at", hash, "--list", "v[0-9]*", "--sort=-version:refname")
	if err != nil {
		return nil, err
	}
	r.version = "devel-" + hash[:12]
	if all := strings.Fields(tags); len(all) > 0 {
		r.version = strings.TrimPrefix(all[0], "v")
	}
	return r, nil
}

// noteChanges prints the number of uncommitted changes, which the release does not contain.
func (r *release) noteChanges() error {
	text, err := r.run(r.root, nil, "git", "status", "--porcelain")
	if text != "" {
		fmt.Fprintf(os.Stderr, "release: of %s; %d changes that are not committed are left out\n", r.commit, strings.Count(text, "\n"))
	}
	return err
}

// tagged reports whether the commit has a version tag, so that its files have a URL.
func (r *release) tagged() bool { return !strings.HasPrefix(r.version, "devel-") }

// name returns the prefix of all file names of the release.
func (r *release) name() string { return "replay_" + r.version }

func (r *release) archiveName(p platform) string {
	name := r.name() + "_" + p.system + "_" + p.processor
	if p.system == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// run runs a command and returns its standard output.
func (r *release) run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// checkOut clones the commit. The release then has no uncommitted files, and the Go command reads the version from a
// clean checkout.
func (r *release) checkOut(dir string) error {
	r.source = dir
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	if _, err := r.run(".", nil, "git", "clone", "--quiet", "--no-checkout", root, dir); err != nil {
		return err
	}
	_, err = r.run(dir, nil, "git", "-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", r.commit)
	return err
}

// buildEnv returns environment variables for a platform. The variables override all variables of this process that
// would change the programs.
func buildEnv(p platform) []string {
	return []string{
		"GOOS=" + p.system, "GOARCH=" + p.processor, "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=",
	}
}

// build builds programs for a platform.
func (r *release) build(dir string, p platform, programs ...string) ([]file, error) {
	var all []file
	for _, name := range programs {
		path := filepath.Join(dir, p.system+"-"+p.processor, name)
		if p.system == "windows" {
			path += ".exe"
		}
		if _, err := r.run(r.source, buildEnv(p), "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", path, folderOf(name)); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := checkHeader(data, p); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if p == (platform{runtime.GOOS, runtime.GOARCH}) {
			if err := r.checkVersion(path); err != nil {
				return nil, err
			}
		}
		all = append(all, file{name: filepath.Base(path), data: data, program: true})
	}
	return all, nil
}

// checkVersion runs a program of this platform and compares its version with the version of the release.
func (r *release) checkVersion(path string) error {
	text, err := r.run(".", nil, path, "version", "--json")
	if err != nil {
		return err
	}
	var said struct {
		Version, Commit string
		Modified        bool
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	want := "devel"
	if r.tagged() {
		want = "v" + r.version
	}
	if said.Version != want || said.Commit != r.commit || said.Modified {
		return fmt.Errorf("%s prints the version %+v, must be %s of %s", path, said, want, r.commit)
	}
	return nil
}

// legalFile contains the licenses of linked libraries.
const legalFile = "LICENSES-OF-LIBRARIES.txt"

// gatherShared returns the files that are the same on every platform: the license, licenses of linked libraries, the
// changelog, manual pages and completions.
func (r *release) gatherShared(dir string) ([]file, error) {
	var all []file
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: name, data: data})
	}
	legal, err := r.gatherLicenses()
	if err != nil {
		return nil, err
	}
	all = append(all, file{name: legalFile, data: legal})
	for _, name := range listPrograms() {
		args := []string{"run", folderOf(name) + "/manual", "-out", dir, "-date", r.time.Format(time.DateOnly), "-version", r.version}
		if _, err := r.run(r.source, []string{"GOFLAGS=-trimpath", "GOWORK="}, "go", args...); err != nil {
			return nil, err
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, relErr := filepath.Rel(dir, path)
		all = append(all, file{name: filepath.ToSlash(rel), data: data})
		return errors.Join(err, relErr)
	})
	return all, err
}

// explorerFile is the template page of replay report --live. explorerFile is the same on every platform, and each
// archive contains it.
const explorerFile = "explorer.html"

// makeExplorer returns the explorer's page that needs no server.
func (r *release) makeExplorer() (file, error) {
	dir, err := os.MkdirTemp("", "release-page-")
	if err != nil {
		return file{}, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, explorerFile)
	if _, err := r.run(r.source, []string{"GOFLAGS=-trimpath", "GOWORK=off"}, "go", "run", "./cmd/explorer", "-out", path); err != nil {
		return file{}, err
	}
	data, err := os.ReadFile(path)
	return file{name: explorerFile, data: data}, err
}

// gatherLicenses returns the license texts of all linked modules of all platforms, as the licenses require. The text
// thus does not depend on the selected platforms.
func (r *release) gatherLicenses() ([]byte, error) {
	modules := make(map[string]string) // folders by name and version
	for _, p := range listPlatforms() {
		args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}
		for _, name := range listPrograms() {
			args = append(args, folderOf(name))
		}
		text, err := r.run(r.source, buildEnv(p), "go", args...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				modules[name] = dir
			}
		}
	}
	return licenses.Join(modules)
}
