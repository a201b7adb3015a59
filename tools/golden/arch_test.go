package main

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/reference"
)

// A few cases have the same results on another architecture. The tool compares all cases.
func TestOtherArchitecture(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short, and a program is built")
	}
	t.Chdir("../..")
	g, err := newGuest("arm64", t.TempDir())
	if errors.Is(err, errNoEmulator) {
		t.Skipf("skipped: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, only := filepath.Join("testdata", "reference"), "-burst"
	cases, err := loadCases([]string{dir}, only)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	counts := tally{out: &out, counts: make(map[string]*count)}
	if err := g.compareCases(t.Context(), cases, []string{"-dir", dir, "-only", only}, &counts); err != nil {
		t.Fatal(err)
	}
	if code := counts.printCounts(); code != 0 || counts.total.compared < 10 || counts.total.compared != 2*len(cases) {
		t.Errorf("%d of twice %d cases were compared: %s", counts.total.compared, len(cases), &out)
	}
}

func TestDifferences(t *testing.T) {
	g := guest{arch: "arm64"}
	ours := outcome{Case: "a", Compat: true, Text: "1\n2\n3"}
	if d := g.diffOutcomes(ours, ours); d != nil {
		t.Errorf("equal outcomes differ: %q", d)
	}
	theirs := ours
	theirs.Text = "1\n4\n3\n5"
	if d := g.diffOutcomes(ours, theirs); len(d) != 3 || !strings.Contains(d[1], `line 2 is "2" here and "4" on arm64`) {
		t.Errorf("differences: %q", d)
	}
	theirs = ours
	theirs.Compat = false
	if d := g.diffOutcomes(ours, theirs); len(d) != 1 {
		t.Errorf("another case differs by %q", d)
	}
}

// Each outcome is a report with its requests, or an error.
func TestOutcomes(t *testing.T) {
	cases, err := reference.Load(filepath.Join("../..", kept))
	if err != nil {
		t.Fatal(err)
	}
	reports, refusals := 0, 0
	err = replayCases(t.Context(), cases[:20], func(o outcome) error {
		if strings.HasPrefix(o.Text, "{") && strings.Contains(o.Text, "InputTokens:") {
			reports++
		} else {
			refusals++
		}
		return nil
	})
	if err != nil || reports < 20 {
		t.Errorf("%d reports and %d refusals of 20 cases, error %v", reports, refusals, err)
	}
}

func TestFused(t *testing.T) {
	listing := `TEXT runtime.pace(SB) /go/src/runtime/mgcpacer.go
  mgcpacer.go:404	0x405dc			1f400c23		FMADDD F0, F3, F1, F3
TEXT github.com/replay-llm/replay/sim.(*Clock).add(SB) /src/sim/time.go
  time.go:7	0x40690			1f608821		FNMSUBD F0, F2, F1, F1
  time.go:7	0x40694			1e622822		FADDD F2, F1, F2
  time.go:9	0x40698			1f000822		FMADDS F0, F2, F1, F2
`
	want := []string{
		"time.go:7 in github.com/replay-llm/replay/sim.(*Clock).add",
		"time.go:9 in github.com/replay-llm/replay/sim.(*Clock).add",
	}
	if got, err := parseFused(listing); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := parseFused("nothing"); err == nil {
		t.Error("a listing without the project is taken")
	}
}

func TestGuest(t *testing.T) {
	if _, err := newGuest("mips", t.TempDir()); err == nil || !strings.Contains(err.Error(), "must be arm64") {
		t.Errorf("another architecture: %v", err)
	}
	t.Setenv("PATH", "")
	if _, err := newGuest("arm64", t.TempDir()); !errors.Is(err, errNoEmulator) {
		t.Errorf("without an emulator: %v", err)
	}
}
