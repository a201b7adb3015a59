package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pictures are those of the program as it is, are XML, have a text for who does not see them, and are small.
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

// What the pages say of the pictures.
func TestPagesSayWhatIsDrawn(t *testing.T) {
	all, err := drawAll("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, words := range map[string][]string{
		"passes.svg":  {">384<", "5 of 7 blocks are cached"},
		"routing.svg": {"round robin: 8064 prompt tokens", "KV router: 3072 prompt tokens"},
	} {
		for _, w := range words {
			if !strings.Contains(all[name], w) {
				t.Errorf("%s does not say %q", name, w)
			}
		}
	}
}
