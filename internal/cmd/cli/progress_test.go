package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A stream that is not a terminal gets lines if they are enabled, and nothing otherwise.
func TestProgressInLines(t *testing.T) {
	var out bytes.Buffer
	if p := NewProgress(&out, "cells"); p != nil {
		t.Errorf("nobody asked for %v", p)
	}
	t.Setenv(progressVariable, "lines")
	p := NewProgress(&out, "cells")
	p.Show(1, 3)
	p.Show(2, 3) // too soon after the previous update
	p.Show(3, 3)
	p.Show(2, 3) // older than the previous update
	p.Clear()
	if want := "progress: 1 of 3 cells\nprogress: 3 of 3 cells\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// A bar shows the counts, the rate, the elapsed time and the remaining time on one line. The bar continues when the
// total grows, and is not drawn after Clear.
func TestProgressBar(t *testing.T) {
	var out bytes.Buffer
	p := newBar(&out, "cells", rateColumns)
	show := func(done, total int) string {
		p.shown = time.Time{}
		out.Reset()
		p.Show(done, total)
		return out.String()
	}
	whole := regexp.MustCompile(`\r +25% +\[=*>?\.*\] \(1/4, \d+ cells/(s|min|hr)\) \[\d+s:\d+s\]\x1b\[0K$`)
	if text := show(1, 4); !whole.MatchString(text) || strings.Contains(text, "\n") {
		t.Errorf("%q, want %v", text, whole)
	}
	if text := show(4, 4); text != "" {
		t.Errorf("%q after the last, want nothing: the total may grow", text)
	}
	if text := show(5, 10); !strings.Contains(text, "50%") || !strings.Contains(text, "(5/10,") {
		t.Errorf("%q, want 5 of 10", text)
	}
	if text := show(4, 10); text != "" {
		t.Errorf("%q for a late update, want nothing", text)
	}
	out.Reset()
	p.shown = time.Now()
	p.Show(6, 10)
	if text := out.String(); text != "" {
		t.Errorf("%q within 100 ms, want nothing", text)
	}
	p.Clear()
	if text := out.String(); text != "\x1b[2K\r" {
		t.Errorf("%q, want the line cleared", text)
	}
	if text := show(8, 10); text != "" {
		t.Errorf("%q after it was cleared, want nothing", text)
	}
}

// An update between two redraws only compares counts and reads the clock. An update between two redraws allocates no
// memory.
func TestProgressIsThrottled(t *testing.T) {
	var out bytes.Buffer
	p := newBar(&out, "requests", rateColumns)
	p.Show(0, 1_000_000)
	p.shown = time.Now().Add(time.Hour)
	done := 0
	if n := testing.AllocsPerRun(1000, func() { done++; p.Show(done, 1_000_000) }); n != 0 {
		t.Errorf("%v allocations for an update that is not drawn", n)
	}
}
