// Command explorer builds the page on which settings of a replay are changed without a server: one HTML file with the
// simulator, compiled to WebAssembly (wasm/main.go). The same source and Go release give the same bytes.
//
// Read main.go, then build.go. docs/explore.md describes the page.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/report/html"
)

// mostPage is the maximum size of the page, in bytes.
const mostPage = 14_000_000

func main() {
	out := flag.String("out", "bin/explorer.html", "the `file` to write")
	source := flag.String("source", ".", "the `folder` of the source, at its root")
	flag.Parse()
	if err := writeTo(*out, *source); err != nil {
		fmt.Fprintln(os.Stderr, "explorer:", err)
		os.Exit(1)
	}
}

// writeTo builds the page from the source and writes it to a file.
func writeTo(out, source string) error {
	b, err := newBuild(source)
	if err != nil {
		return err
	}
	page, err := b.makePage()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(out, page, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %.1f MB\n", out, float64(len(page))/1e6)
	return nil
}

// newBegin returns the initial data of the page.
func newBegin() explore.Begin {
	return explore.Begin{Traces: []string{}, Knobs: explore.New().Knobs(), Most: explore.MostText, Start: explore.StartSettings(), Layout: html.StandaloneLayout}
}
