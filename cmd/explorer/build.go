package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/internal/licenses"
	"github.com/replay-llm/replay/report/html"
)

// program is the package of the simulator for browsers.
const program = "./cmd/explorer/wasm"

// build builds a page from a source folder.
type build struct {
	source string
	goroot string // of the Go release that builds
}

func newBuild(source string) (*build, error) {
	b := &build{source: source}
	text, err := b.run("env", "GOROOT")
	b.goroot = strings.TrimSpace(text)
	return b, err
}

// run returns the output of the Go command in a build for browsers. The environment variables that change the output
// are set.
func (b *build) run(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = b.source, append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOWASM=", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "CGO_ENABLED=0")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// makePage builds the simulator and returns the page that contains it.
func (b *build) makePage() ([]byte, error) {
	packed, err := b.packProgram()
	if err != nil {
		return nil, err
	}
	// wasm_exec.js must be from the Go release that built the program.
	glue, err := os.ReadFile(filepath.Join(b.goroot, "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return nil, err
	}
	legal, err := b.gatherLicenses()
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := html.WriteStandalone(&page, newBegin(), html.Simulator{Packed: packed, Glue: string(glue), Licenses: legal}); err != nil {
		return nil, err
	}
	if page.Len() > mostPage {
		return nil, fmt.Errorf("the page has %d bytes, must have at most %d", page.Len(), mostPage)
	}
	return page.Bytes(), nil
}

// packProgram builds the simulator and returns it compressed.
func (b *build) packProgram() ([]byte, error) {
	dir, err := os.MkdirTemp("", "explorer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "simulator.wasm")
	if _, err := b.run("build", "-trimpath", "-ldflags=-s -w", "-o", path, program); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	z.Write(text) // writes to a buffer do not fail
	err = z.Close()
	return packed.Bytes(), err
}

// gatherLicenses returns the licenses of this program, of Go and of all modules that the
// simulator is linked with.
func (b *build) gatherLicenses() (string, error) {
	text, err := b.run("list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", program)
	if err != nil {
		return "", err
	}
	modules := map[string]string{"replay": b.source, "Go": b.goroot}
	for line := range strings.Lines(text) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			modules[name] = dir
		}
	}
	joined, err := licenses.Join(modules)
	return string(joined), err
}
