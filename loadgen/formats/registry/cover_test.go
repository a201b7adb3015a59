package registry

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
)

// moonRow returns a Mooncake row with n ids and a prompt length of the given tokens.
func moonRow(n int, tokens uint64) string {
	ids := strings.TrimSuffix(strings.Repeat("7,", n), ",")
	return fmt.Sprintf(`{"timestamp":0,"input_length":%d,"output_length":2,"hash_ids":[%s]}`, tokens, ids)
}

// readers returns all functions that read the rows of a file, by name.
func readers() map[string]func(s *formats.Stream) error {
	return map[string]func(s *formats.Stream) error{
		"whole":      func(s *formats.Stream) error { _, err := s.Workload(); return err },
		"row by row": func(s *formats.Stream) error { return formats.Each(s, func(*formats.Record) error { return nil }) },
		"as arrivals come": func(s *formats.Stream) error {
			from, err := s.Source(0)
			if err != nil {
				return err
			}
			defer from.Close()
			var in loadgen.Incoming
			for err == nil {
				err = from.Next(&in)
			}
			if err == io.EOF {
				return nil
			}
			return err
		},
	}
}

// A row is rejected if the number of its ids is not the number of blocks of its prompt. The error contains the number
// of ids, the number of blocks, and the block size that fits all rows.
func TestIDsThatDoNotFit(t *testing.T) {
	task := func(row string) string { return strings.Replace(row, "{", `{"id":"a","after":[],`, 1) }
	for name, c := range map[string]struct {
		text  string
		block int
		want  string
	}{
		"half as many":      {moonRow(1, 512) + "\n" + moonRow(8, 8000) + "\n" + moonRow(3, 2500), 512, "f:2: number of hash ids is 8 for 8000 prompt tokens, must be 16 with blocks of 512 tokens; --trace-block-size 1024 fits all rows"},
		"twice as many":     {moonRow(16, 8000) + "\n" + moonRow(8, 4000), 1024, "f:1: number of hash ids is 16 for 8000 prompt tokens, must be 8 with blocks of 1024 tokens; --trace-block-size 512 fits all rows"},
		"one too many":      {moonRow(3, 1024), 512, "f:1: number of hash ids is 3 for 1024 prompt tokens, must be 2 with blocks of 512 tokens; --trace-block-size 384 fits all rows"},
		"one too few":       {moonRow(2, 1025), 512, "f:1: number of hash ids is 2 for 1025 prompt tokens, must be 3 with blocks of 512 tokens; --trace-block-size 1024 fits all rows"},
		"a huge prompt":     {moonRow(1, 99999999999), 512, "f:1: number of hash ids is 1 for 99999999999 prompt tokens, must be 195312500 with blocks of 512 tokens; no block size fits all rows"},
		"none":              {moonRow(8, 8000) + "\n" + moonRow(8, 4000), 512, "f:1: number of hash ids is 8 for 8000 prompt tokens, must be 16 with blocks of 512 tokens; no block size fits all rows"},
		"no ids":            {moonRow(0, 8000), 512, "f:1: number of hash ids is 0 for 8000 prompt tokens, must be 16 with blocks of 512 tokens; no block size fits all rows"},
		"a bad row further": {moonRow(8, 8000) + "\n{}\n" + moonRow(8, 4000), 512, "f:1: number of hash ids is 8 for 8000 prompt tokens, must be 16 with blocks of 512 tokens; no block size fits all rows"},
		"tasks":             {task(moonRow(16, 8000)), 1024, "f:1: number of hash ids is 16 for 8000 prompt tokens, must be 8 with blocks of 1024 tokens; --trace-block-size 512 fits all rows"},
	} {
		for way, read := range readers() {
			s, err := NewStream(strings.NewReader(c.text), "f", formats.Options{TraceBlock: c.block})
			if err == nil {
				err = read(s)
			}
			if err == nil || err.Error() != c.want {
				t.Errorf("%s, read %s: %v\nwant %s", name, way, err, c.want)
			}
		}
	}
}

// In Compat mode such a row is read with a warning. The prompt length of the row is then the number of tokens in its
// ids.
func TestIDsThatDoNotFitInTheReference(t *testing.T) {
	text := moonRow(1, 512) + "\n" + moonRow(8, 8000) + "\n" + moonRow(3, 2500)
	for way, read := range readers() {
		var warned []string
		s, err := NewStream(strings.NewReader(text), "f", formats.Options{Format: formats.Mooncake, Compat: true, Warn: func(text string) { warned = append(warned, text) }})
		if err == nil {
			err = read(s)
		}
		const want = "f:2: number of hash ids is 8 for 8000 prompt tokens, must be 16 with blocks of 512 tokens; --trace-block-size 1024 fits all rows; 2 rows do not fit, and 4868 prompt tokens are dropped as in the reference"
		if err != nil || len(warned) != 1 || warned[0] != want {
			t.Errorf("read %s: %v, %q\nwant %q", way, err, warned, want)
		}
	}
	w, err := readTrace(moonRow(2, 1000)+"\n"+moonRow(1, 1<<63), formats.Options{Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(w); got != "1 request_1/0 in=128 out=2 ids=[7 7] at=0\n2 request_2/0 in=64 out=2 ids=[7] at=0\n" {
		t.Error(got)
	}
}

// Misfit reads the file to its end even if rows are invalid. Only the first call of Misfit returns the block size
// that fits.
func TestMisfit(t *testing.T) {
	for text, want := range map[string]string{
		moonRow(1, 512):  "",
		moonRow(8, 8000): "--trace-block-size 1024 fits all rows",
		moonRow(8, 8000) + "\n" + moonRow(8, 4000): "no block size fits all rows",
	} {
		var bad []error
		s, err := NewStream(strings.NewReader(text), "f", formats.Options{KeepGoing: true, Bad: func(err error) { bad = append(bad, err) }})
		if err == nil {
			err = formats.Each(s, func(*formats.Record) error { return nil })
		}
		if err != nil || s.Misfit() != want {
			t.Errorf("%s: %v, %q, want %q", text, err, s.Misfit(), want)
		}
		if want != "" && !strings.HasPrefix(bad[0].Error(), "f:1: number of hash ids is 8 for 8000 prompt tokens, must be 16") {
			t.Error(bad)
		}
	}
}

// Rows of mooncake-delta do not need an id for each block of the prompt.
func TestDeltasNeedNotFit(t *testing.T) {
	if n, err := collected(moonRow(1, 512)+"\n"+moonRow(8, 8000), formats.Options{Format: "mooncake-delta"}); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}
