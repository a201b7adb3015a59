package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The error names every exceeded limit.
func TestMissed(t *testing.T) {
	for _, c := range []struct {
		took taken
		want []string
	}{
		{taken{27_500_000, 16 << 20, 16 << 20, 15 * time.Millisecond}, nil},
		{taken{27_500_001, 1, 1, 1}, []string{"stripped"}},
		{taken{1, 16<<20 + 1, 1, 1}, []string{"--version has 16.0 MiB"}},
		{taken{1, 1, 16<<20 + 1, 1}, []string{"100 requests has 16.0 MiB"}},
		{taken{1, 0, 0, 16 * time.Millisecond}, []string{"takes 16.0 ms"}},
		{taken{40_000_000, 20 << 20, 17 << 20, time.Second}, []string{"40.0 MB", "20.0 MiB", "17.0 MiB", "1000.0 ms"}},
	} {
		text := ""
		if err := c.took.missed(); err != nil {
			text = err.Error()
		}
		if (text == "") != (c.want == nil) {
			t.Errorf("%+v: %q", c.took, text)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: %q, want %q in it", c.took, text, want)
			}
		}
	}
}

// The lowest value of the runs counts. More runs are made while a limit is exceeded, up to a maximum.
func TestTakeLeast(t *testing.T) {
	for _, c := range []struct{ quickAt, runs int }{{0, fewestRuns}, {5, fewestRuns}, {50, 51}, {mostRuns, mostRuns}} {
		runs := 0
		least, err := takeLeast(func() (taken, error) {
			defer func() { runs++ }()
			if runs == c.quickAt {
				return taken{time: time.Millisecond, resident: 9 << 20}, nil
			}
			return taken{time: time.Second, resident: 10 << 20}, nil
		})
		if err != nil || runs != c.runs || (least.missed() == nil) != (c.quickAt < mostRuns) {
			t.Errorf("%+v: %d runs, %+v, %v", c, runs, least, err)
		}
	}
}

// Marked functions are found on both sides of a dependency, each once.
func TestListLookups(t *testing.T) {
	const dependencies = `main.main -> fmt.Println
text/template.(*state).evalFieldChain -> text/template.(*state).evalField <ReflectMethod>
text/template.(*state).evalField <ReflectMethod> -> reflect.Value.Addr
type:reflect.Value <UsedInIface> -> reflect.(*Value).Method <ReflectMethod>
`
	want := []string{"reflect.(*Value).Method", "text/template.(*state).evalField"}
	if got := listLookups(dependencies); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
