// Command api compares the stable part of the Go API with testdata/api, by means of apidiff:
//
//	go run ./tools/api            # fails when a program that uses it would no longer build
//	go run ./tools/api -update    # accepts the present API
//
// docs/api.md lists what is stable. Read packages.go first.
package main

import (
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// apidiff is the comparison program at a fixed version.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e"

// module is the path of the module.
const module = "github.com/replay-llm/replay"

func main() {
	update := flag.Bool("update", false, "accept the present API")
	flag.Parse()
	a := api{root: ".", module: module, packages: listPackages(), out: os.Stdout}
	run := a.check
	if *update {
		run = a.update
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// api is the stable part of a module's API.
type api struct {
	root     string // module folder, with the baselines in testdata/api
	module   string
	packages []stable
	out      io.Writer
}

// incompatible is the error if the stable API has changed incompatibly.
const incompatible = `the stable Go API has changed so that programs that use it may no longer build.
Undo that, or, if it is meant, run "go run ./tools/api -update", commit testdata/api with it and say so in CHANGELOG.md`

// check compares each package with its baseline and prints the incompatible changes.
func (a *api) check() error {
	broken := false
	for _, p := range a.packages {
		changes, err := a.compare(&p)
		if err != nil {
			return err
		}
		for _, c := range changes {
			broken = true
			fmt.Fprintf(a.out, "%s: %s\n", p.path, c)
		}
	}
	if broken {
		return errors.New(incompatible)
	}
	return nil
}

// compare returns the incompatible changes in the stable part of p.
func (a *api) compare(p *stable) ([]string, error) {
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	old := filepath.Join(dir, "old")
	if err := unpackFile(a.baseline(p), old); err != nil {
		return nil, fmt.Errorf("%w: must be a baseline, which \"go run ./tools/api -update\" makes", err)
	}
	text, err := a.apidiff("-incompatible", old, a.module+"/"+p.path)
	if err != nil {
		return nil, err
	}
	return p.keep(text), nil
}

// update writes the baseline of each package.
func (a *api) update() error {
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, p := range a.packages {
		now := filepath.Join(dir, "now")
		if _, err := a.apidiff("-w", now, a.module+"/"+p.path); err != nil {
			return err
		}
		if err := packFile(now, a.baseline(&p)); err != nil {
			return err
		}
	}
	return nil
}

// baseline returns the file with the export data of p.
func (a *api) baseline(p *stable) string {
	return filepath.Join(a.root, "testdata", "api", strings.ReplaceAll(p.path, "/", "-")+".gz")
}

// apidiff runs apidiff in the module and returns its output.
func (a *api) apidiff(args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"run", apidiff}, args...)...)
	cmd.Dir = a.root
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off") // omits the folder names of this machine
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("apidiff %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

// packFile writes a compressed copy of a file.
func packFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	w, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = w.Write(data)
	return errors.Join(err, w.Close(), f.Close())
}

// unpackFile writes an uncompressed copy of a file.
func unpackFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.WriteFile(to, data, 0o644)
}
