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

// platform is a system and a processor by their names in Go.
type platform struct{ system, processor string }

func (p platform) String() string { return p.system + "/" + p.processor }

// release is a commit and what is made of it.
type release struct {
	root      string // the repository
	source    string // a checkout of the commit, and of nothing else
	commit    string
	version   string // its tag without the v, or devel and the begin of its name
	time      time.Time
	platforms []platform

	onlyWheels bool
}

// listPlatforms returns the platforms that are released.
func listPlatforms() []platform {
	var all []platform
	for _, system := range []string{"linux", "darwin", "windows"} {
		all = append(all, platform{system, "amd64"}, platform{system, "arm64"})
	}
	return all
}

// listPrograms returns the programs that are released.
func listPrograms() []string { return []string{"replay", "replay-live"} }

// folderOf returns where a program is in the repository.
func folderOf(program string) string {
	if program == "replay-live" {
		return "./live/cmd/" + program
	}
	return "./cmd/" + program
}

// newRelease returns the release of a commit of the repository at root, for platforms, or
// for all where none are named.
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

// noteChanges prints how many changes of the checkout are left out.
func (r *release) noteChanges() error {
	text, err := r.run(r.root, nil, "git", "status", "--porcelain")
	if text != "" {
		fmt.Fprintf(os.Stderr, "release: of %s; %d changes that are not committed are left out\n", r.commit, strings.Count(text, "\n"))
	}
	return err
}

// tagged reports whether the commit has a version, and files of it an address.
func (r *release) tagged() bool { return !strings.HasPrefix(r.version, "devel-") }

// name is what the names of all files of the release begin with.
func (r *release) name() string { return "replay_" + r.version }

func (r *release) archiveName(p platform) string {
	name := r.name() + "_" + p.system + "_" + p.processor
	if p.system == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// run returns what a command prints on standard output.
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

// checkOut clones the commit, so that nothing that is not in it gets into the release,
// and the Go command sees a clean checkout to take the version from.
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

// buildEnv is the environment of a build for a platform: nothing that changes a byte
// comes from that of this process.
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

// checkVersion runs a program of this platform and compares the version that it prints with the release's.
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

// legalFile has the licenses of what is linked in.
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

// explorerFile is the page from which replay report --live makes its pages: the same on every platform, and in each
// archive with the programs.
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

// gatherLicenses returns the license texts of all modules that the programs of any platform are linked with, as the
// licenses require. An archive has the same content whichever archives are made with it.
func (r *release) gatherLicenses() ([]byte, error) {
	modules := make(map[string]string) // folders, by name and version
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
