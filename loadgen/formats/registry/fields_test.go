package registry

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// spot is the position of a value in a text. key is the position of its key, or -1 if it has none.
type spot struct {
	name     string
	key      int
	from, to int
}

// findSpots returns the values in a JSON value that starts at offset from of text. Of each list only the first
// element is returned.
func findSpots(text []byte, from int, value []byte, name string) []spot {
	var all []spot
	var o scan.Object
	o.ReparseText(value)
	for _, m := range o.Members {
		at := from + scan.OffsetOf(value, m.Value)
		s := spot{name + string(m.Key), from + scan.OffsetOf(value, m.Key), at, at + len(m.Value)}
		all = append(all, s)
		all = append(all, findSpots(text, at, text[s.from:s.to], s.name+".")...)
	}
	if parts, ok := scan.SplitList(value, nil); ok && len(parts) > 0 {
		at := from + scan.OffsetOf(value, parts[0])
		all = append(all, spot{name + "[0]", -1, at, at + len(parts[0])})
		all = append(all, findSpots(text, at, text[at:at+len(parts[0])], name+"[0].")...)
	}
	return all
}

// cellSpots returns the cells of the first row of a table.
func cellSpots(text []byte) []spot {
	header, rest, _ := bytes.Cut(text, []byte{'\n'})
	row, _, _ := bytes.Cut(rest, []byte{'\n'})
	at := len(header) + 1
	var all []spot
	names := bytes.Split(bytes.TrimSpace(header), []byte{','})
	for i, cell := range bytes.Split(bytes.TrimSuffix(row, []byte{'\r'}), []byte{','}) {
		all = append(all, spot{string(names[i]), -1, at, at + len(cell)})
		at += len(cell) + 1
	}
	return all
}

// spotsOf returns the values in the first two rows of an example. In a file with a single JSON value it returns all
// values.
func spotsOf(name string, text []byte) []spot {
	if strings.HasSuffix(name, ".csv") {
		return cellSpots(text)
	}
	if !strings.HasSuffix(name, ".jsonl") {
		return findSpots(text, 0, text, "")
	}
	var all []spot
	from := 0
	for n := 1; n <= 2 && from < len(text); n++ {
		line, _, _ := bytes.Cut(text[from:], []byte{'\n'})
		all = append(all, findSpots(text, from, line, fmt.Sprintf("%d:", n))...)
		from += len(line) + 1
	}
	return all
}

// describe returns a description of all requests in a text, or the error.
func describe(name, text string, o formats.Options) string {
	s, err := NewStream(strings.NewReader(text), "f", o)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %d:", s.Format, s.Block)
	var r formats.Record
	for {
		err := s.Next(&r)
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			return b.String() + " " + err.Error()
		}
		fmt.Fprintf(&b, " %d/%d", r.Input, r.Output)
		if len(r.IDs) > 0 {
			fmt.Fprintf(&b, "#%d", len(r.IDs))
		}
		if r.HasAt {
			fmt.Fprintf(&b, "@%v", r.At)
		}
		if r.HasDelay {
			fmt.Fprintf(&b, "+%v", r.Delay)
		}
		if r.Session != nil {
			fmt.Fprintf(&b, "=%s", r.Session)
		}
	}
}

// Each value of each example is removed or replaced by other values. -rewrite writes the expected results to
// testdata/fields.txt.
func TestEveryField(t *testing.T) {
	others := []string{"null", `"x"`, "-1", "0", "1.5", "2147483647", "2147483648", "1e400", "[]", "{}", `""`}
	var b strings.Builder
	for _, name := range exampleNames(t) {
		text, err := os.ReadFile(filepath.Join(examples, name))
		if err != nil {
			continue // a directory
		}
		o := exampleOptions(name)
		if o.Format == "" {
			s, err := NewStream(bytes.NewReader(text), "f", o)
			if err != nil {
				t.Fatal(err)
			}
			o.Format = s.Format // a replaced value must not change the format
		}
		fmt.Fprintf(&b, "%s\n    %s\n", name, describe(name, string(text), o))
		seen := map[string]string{}
		try := func(what, text string) {
			got := describe(name, text, o)
			if before, ok := seen[got]; ok {
				got = "as " + before
			} else {
				seen[got] = what
			}
			fmt.Fprintf(&b, "%s\n    %s\n", what, got)
		}
		for _, s := range spotsOf(name, text) {
			if s.key >= 0 {
				try(s.name+" left out", string(text[:s.key])+"x_"+string(text[s.key:]))
			}
			for _, other := range others {
				try(s.name+" "+other, string(text[:s.from])+other+string(text[s.to:]))
			}
		}
	}
	const golden = "testdata/fields.txt"
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, expected := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(got), len(expected)) {
		if got[i] != expected[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s", golden, i+1, got[i], expected[i])
		}
	}
	if len(got) != len(expected) {
		t.Errorf("%d lines, want %d", len(got), len(expected))
	}
}
