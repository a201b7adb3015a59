package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pictures equal the output of the current program, are valid XML, have a text for screen readers, and are small.
func TestPictures(t *testing.T) {
	all, err := drawAll("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the program draws: go generate ./docs/...", name)
		}
		if len(want) > 30000 || !strings.Contains(want, "<desc") {
			t.Errorf("%s has %d bytes, want at most 30000, with a description", name, len(want))
		}
		for x := xml.NewDecoder(strings.NewReader(want)); ; {
			if _, err := x.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// The numbers on the page equal those in the pictures.
func TestPageHasTheNumbersOfPictures(t *testing.T) {
	r, err := replayAll("..")
	if err != nil {
		t.Fatal(err)
	}
	long, alike, sent := r.passes.requests[1], r.passes.requests[2], r.pools.requests[0]
	found := r.routing[1].requests[5] // the second turn of A
	text, err := os.ReadFile(filepath.Join("..", "replay.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(strings.Fields(string(text)), " ")
	for _, w := range []string{
		fmt.Sprintf("Request 2 has %d,%03d tokens", long.input/1000, long.input%1000),
		fmt.Sprintf("%d of its %d blocks of 64 tokens are cached", alike.overlap, alike.blocks), fmt.Sprintf("%d tokens are left to compute", alike.computed),
		fmt.Sprintf("so %.0f ms for %d,%03d tokens", sent.got-sent.sent, sent.input/1000, sent.input%1000),
		fmt.Sprintf("where %d of %d blocks are cached. The worker computes the other two.", found.overlap, found.blocks),
		fmt.Sprintf("round robin computes %d prompt tokens, the KV router %d", computedOf(r.routing[0]), computedOf(r.routing[1])),
	} {
		if !strings.Contains(said, w) {
			t.Errorf("replay.md does not contain %q", w)
		}
	}
	if found.blocks-found.overlap != 2 {
		t.Errorf("%d blocks are left to compute, must be the two of replay.md", found.blocks-found.overlap)
	}
}
