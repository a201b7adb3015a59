package cli

import (
	"bytes"
	"testing"
)

// What is no terminal gets lines when they are asked for, and nothing otherwise.
func TestProgressInLines(t *testing.T) {
	var out bytes.Buffer
	if p := NewProgress(&out, "cells"); p != nil {
		t.Errorf("nobody asked for %v", p)
	}
	t.Setenv(progressVariable, "lines")
	p := NewProgress(&out, "cells")
	p.Show(1, 3)
	p.Show(2, 3) // too soon to be said
	p.Show(3, 3)
	p.Show(2, 3) // came late
	p.Clear()
	if want := "progress: 1 of 3 cells\nprogress: 3 of 3 cells\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
