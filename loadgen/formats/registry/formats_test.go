package registry

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/write"
)

var rewrite = flag.Bool("rewrite", false, "write what the examples become into the golden file")

const examples = "../../../testdata/traces/formats"

// exampleOptions returns the options that are required to read an example.
func exampleOptions(name string) formats.Options {
	o := formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 0.25}}
	switch name {
	case "delta.jsonl":
		o.Format = "mooncake-delta"
	case "azure_mm.csv":
		o.ImageTokens = 300
	}
	return o
}

// exampleNames returns the files of testdata/traces/formats and the ServeGen directory.
func exampleNames(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(examples)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "converted.txt" && e.Name() != "README.md" {
			names = append(names, e.Name())
		}
	}
	if len(names) < 28 {
		t.Fatalf("%d examples, want one of every format", len(names))
	}
	return names
}

// convert reads a trace and writes it in the Mooncake format. A first pass determines the earliest arrival.
func convert(t testing.TB, path string, o formats.Options) (text string, s *formats.Stream) {
	t.Helper()
	s, err := OpenPath(path, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Raw() {
		if o.Earliest, err = s.Earliest(); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if s, err = OpenPath(path, nil, o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b bytes.Buffer
	w, err := write.NewWriter(&b, "mooncake", 512)
	if err != nil {
		t.Fatal(err)
	}
	dense := formats.NewDense(s.Block)
	var r formats.Record
	for {
		err := s.Next(&r)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !s.Raw() {
			dense.Apply(&r)
		}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String(), s
}

// The format of every example is detected. The rows of the example in the Mooncake format equal those in
// converted.txt.
func TestExamples(t *testing.T) {
	var b strings.Builder
	seen := map[string]bool{}
	for _, name := range exampleNames(t) {
		text, s := convert(t, filepath.Join(examples, name), exampleOptions(name))
		seen[s.Format] = true
		fmt.Fprintf(&b, "%s: %s, blocks of %d tokens\n%s\n", name, s.Format, s.Block, text)
	}
	for _, name := range Names() {
		if !seen[name] {
			t.Errorf("no example of %s", name)
		}
	}
	golden := filepath.Join(examples, "converted.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the examples become\n%s\nwant\n%s", got, want)
	}
}

// same compares two workloads without names and line numbers.
func same(t *testing.T, name string, got, want *loadgen.Workload) {
	t.Helper()
	if len(got.Sessions) != len(want.Sessions) || len(got.Turns) != len(want.Turns) || len(got.Turns) == 0 {
		t.Fatalf("%s: %d sessions of %d turns, want %d of %d", name, len(got.Sessions), len(got.Turns), len(want.Sessions), len(want.Turns))
	}
	for i, g := range got.Sessions {
		w := want.Sessions[i]
		if g.First != w.First || g.Turns != w.Turns || g.Arrival != w.Arrival || g.HasArrival != w.HasArrival {
			t.Errorf("%s: session %d is %+v, want %+v", name, i, g, w)
		}
	}
	for i, g := range got.Turns {
		w := want.Turns[i]
		if !slices.Equal(g.IDs, w.IDs) {
			t.Errorf("%s: ids of turn %d are %v, want %v", name, i, g.IDs, w.IDs)
		}
		g.IDs, w.IDs, g.Line, w.Line = nil, nil, 0, 0
		if g.Session != w.Session || g.Index != w.Index || g.Next != w.Next || g.Input != w.Input || g.Output != w.Output || g.Delay != w.Delay {
			t.Errorf("%s: turn %d is %+v, want %+v", name, i, g, w)
		}
	}
}

// A trace and its conversion to Mooncake are the same workload, bit for bit.
func TestConversionIsExact(t *testing.T) {
	paths := []string{}
	for _, name := range exampleNames(t) {
		paths = append(paths, filepath.Join(examples, name))
	}
	for _, name := range []string{"azure_2023_conv.csv", "azure_2023_code.csv", "mooncake_trace_1000.jsonl"} {
		t.Run(name, func(t *testing.T) { checkConversion(t, optional.Data(t, "traces/"+name)) })
	}
	for _, path := range paths {
		checkConversion(t, path)
	}
}

// checkConversion checks that a trace and its conversion to Mooncake are the same workload.
func checkConversion(t *testing.T, path string) {
	t.Helper()
	o := exampleOptions(filepath.Base(path))
	direct, err := readPath(path, o)
	if err != nil {
		t.Fatal(err)
	}
	text, s := convert(t, path, o)
	again, err := Read(strings.NewReader(text), path, formats.Options{Format: formats.Mooncake, TraceBlock: s.Block})
	if err != nil {
		t.Fatal(err)
	}
	same(t, path, again, direct)
	if direct.TraceBlock != s.Block {
		t.Errorf("%s: blocks of %d tokens, want %d", path, direct.TraceBlock, s.Block)
	}
}

// Mooncake files give the same workload if they are read row by row and if they are read as a workload.
func TestRowsAreThoseOfTheWorkload(t *testing.T) {
	for _, path := range []string{"../../../testdata/traces/sessions.jsonl", "../../../testdata/traces/burst.jsonl", "../../../testdata/traces/prefix_tree.jsonl", "../../../testdata/traces/agentic.jsonl"} {
		want, err := readPath(path, formats.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := rowByRow(path)
		if err != nil {
			t.Fatal(err)
		}
		same(t, path, got, want)
		if got.Untimed != want.Untimed {
			t.Errorf("%s: untimed is %v, want %v", path, got.Untimed, want.Untimed)
		}
	}
}

// The lists of a run are unchanged after the lines of later runs are read.
func TestRunsOfALongFile(t *testing.T) {
	const requests, runs = 4_000, 9 // a run is short enough to be read as a line
	var text strings.Builder
	for run := 1; run <= runs; run++ {
		list := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%d,", 111*run), requests), ",")
		fmt.Fprintf(&text, `{"request_throughput":1,"input_lens":[%s],"output_lens":[%s],"start_times":[%s]}`+"\n", list, list, list)
	}
	for run := 1; run <= runs; run++ {
		s, err := NewStream(strings.NewReader(text.String()), "f", formats.Options{LeftOpen: formats.LeftOpen{Run: run}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = formats.Each(s, func(r *formats.Record) error {
			if n++; r.Input != 111*run || r.Output != 111*run {
				return fmt.Errorf("input is %d and output %d", r.Input, r.Output)
			}
			return nil
		})
		if err != nil || n != requests {
			t.Errorf("run %d: request %d: %v", run, n, err)
		}
	}
}

func rowByRow(path string) (*loadgen.Workload, error) {
	s, err := OpenPath(path, nil, formats.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return formats.Collect(s)
}

// The public traces have their published numbers of rows, and the expected minimum and maximum lengths.
func TestPublicTraces(t *testing.T) {
	for _, c := range []struct {
		name, format                string
		rows, least, most, outLeast int
	}{
		{"azure_2023_code.csv", "azure", 8819, 3, 7437, 6},
		{"azure_2023_conv.csv", "azure", 19366, 2, 14050, 7},
		{"mooncake_conversation.jsonl", "mooncake", 12031, 891, 126195, 1},
		{"mooncake_trace_1000.jsonl", "mooncake", 1000, 0, 0, 0},
	} {
		s, err := OpenPath(optional.Data(t, "traces/"+c.name), nil, formats.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows, least, most, out := 0, 1<<30, 0, 1<<30
		var r formats.Record
		for ; ; rows++ {
			if err := s.Next(&r); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			least, most, out = min(least, r.Input), max(most, r.Input), min(out, r.Output)
		}
		s.Close()
		if s.Format != c.format || rows != c.rows || c.most > 0 && (least != c.least || most != c.most || out != c.outLeast) {
			t.Errorf("%s: %s, %d rows, input %d to %d, output from %d; want %+v", c.name, s.Format, rows, least, most, out, c)
		}
	}
}

// Reblock keeps shared prefixes, rounded down to complete new blocks.
func TestReblock(t *testing.T) {
	for _, c := range []struct {
		from, to, input int
		ids             [][]uint64
		want            [][]uint64
	}{
		{16, 64, 150, [][]uint64{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {1, 2, 3, 4, 5, 6, 7, 9, 9, 9}}, [][]uint64{{0, 1, 2}, {0, 3, 4}}},
		{64, 16, 100, [][]uint64{{1, 2}, {1, 3}}, [][]uint64{{4, 5, 6, 7, 8, 9, 10}, {4, 5, 6, 7, 12, 13, 14}}},
		{48, 32, 96, [][]uint64{{1, 2}, {1, 3}}, [][]uint64{{0, 1, 2}, {0, 3, 4}}},
		{512, 512, 600, [][]uint64{{9, 8}}, [][]uint64{{9, 8}}},
	} {
		b := formats.NewReblock(c.from, c.to)
		for i, ids := range c.ids {
			r := formats.Record{Input: c.input, IDs: slices.Clone(ids)}
			b.Apply(&r)
			if !slices.Equal(r.IDs, c.want[i]) {
				t.Errorf("%d to %d tokens: %v becomes %v, want %v", c.from, c.to, ids, r.IDs, c.want[i])
			}
		}
	}
}

// Two prompts with a common half still have a common half after Stretch makes the prompts longer or shorter.
func TestStretch(t *testing.T) {
	for _, c := range []struct {
		factor       float64
		input, alike int
	}{{1, 1600, 8}, {2, 3200, 16}, {2.5, 4000, 20}, {0.5, 800, 4}, {0.25, 400, 2}} {
		s := formats.NewStretch(100, c.factor)
		var a, b formats.Record
		for i := range uint64(16) {
			a.IDs = append(a.IDs, i)
			b.IDs = append(b.IDs, i+100*(i/8))
		}
		a.Input, b.Input = 1600, 1600
		s.Apply(&a)
		s.Apply(&b)
		alike := 0
		for alike < len(a.IDs) && a.IDs[alike] == b.IDs[alike] {
			alike++
		}
		if a.Input != c.input || alike != c.alike || len(a.IDs) != c.input/100 {
			t.Errorf("factor %v: %d tokens in %d blocks, %d alike; want %d in %d, %d", c.factor, a.Input, len(a.IDs), alike, c.input, c.input/100, c.alike)
		}
	}
}

// AssumePrefix generates ids with the requested shared prefixes.
func TestAssumedPrefix(t *testing.T) {
	const rows = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
		"1,a,1,G,100,5,105,Conversation log\n2,b,1,G,100,5,105,Conversation log\n9,a,1,G,200,5,205,Conversation log\n"
	for _, c := range []struct{ assume, want string }{
		{"none", "[0 1 2 3] [4 5 6 7] [8 9 10 11 12 13 14]"},
		{"system:64", "[0 1 2 3] [0 1 4 5] [0 1 6 7 8 9 10]"},
		{"session", "[0 1 2 3] [4 5 6 7] [0 1 2 8 9 10 11]"},
		{"system:32,session", "[0 1 2 3] [0 4 5 6] [0 1 2 7 8 9 10]"},
		{"groups:1:0.5", "[0 1 2 3] [0 4 5 6] [0 7 8 9 10 11 12]"},
	} {
		w, err := Read(strings.NewReader(rows), "a.csv", formats.Options{TraceBlock: 32, LeftOpen: formats.LeftOpen{AssumePrefix: c.assume}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range w.Turns {
			got = append(got, fmt.Sprint(w.Turns[i].IDs))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.assume, text, c.want)
		}
	}
	if _, err := Read(strings.NewReader(`{"timestamp":0,"output_length":1,"hash_ids":[1]}`), "a", formats.Options{LeftOpen: formats.LeftOpen{AssumePrefix: "session"}}); err == nil {
		t.Error("a prefix is assumed where the file has ids")
	}
}

// readPath returns the workload of the trace at path.
func readPath(path string, o formats.Options) (*loadgen.Workload, error) {
	s, err := OpenPath(path, nil, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Workload()
}
