package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

// putFiles writes files with the given contents to a directory. Some are copies of test files of package frames.
func putFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if from, is := strings.CutPrefix(text, "frames:"); is {
			kept, err := os.ReadFile("../frames/testdata/" + from)
			if err != nil {
				t.Fatal(err)
			}
			text = string(kept)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestHubDirectories reads data sets in the directory layouts of hub downloads and of the library datasets.
func TestHubDirectories(t *testing.T) {
	const row = `{"time": 1, "prompt": 100, "answer": 5}`
	for name, c := range map[string]struct {
		files map[string]string
		want  int    // number of requests
		err   string // part of the error
	}{
		"cache": {map[string]string{
			"refs/main": "abc", "blobs/x": "x", "snapshots/abc/README.md": "#", "snapshots/old/data/train-00000-of-00001.parquet": "PAR1",
			"snapshots/abc/data/train-00000-of-00002.parquet": "frames:pyarrow.parquet", "snapshots/abc/data/train-00001-of-00002.parquet": "frames:polars.parquet",
			"snapshots/abc/data/test-00000-of-00001.parquet": "frames:pyarrow.parquet"}, 20, ""},
		"one revision":   {map[string]string{"snapshots/abc/all.jsonl": row}, 1, ""},
		"two revisions":  {map[string]string{"snapshots/abc/all.jsonl": row, "snapshots/abd/all.jsonl": row}, 0, "2 revisions"},
		"plain":          {map[string]string{"README.md": "#", "data/a-00000-of-00002.jsonl": row, "data/a-00001-of-00002.jsonl": row + "\n"}, 2, ""},
		"saved":          {map[string]string{"dataset_dict.json": "{}", "train/state.json": "{}", "train/dataset_info.json": "{}", "train/data-00000-of-00001.arrow": "frames:stream.arrow", "train/cache-1.arrow": "x", "test/data-00000-of-00001.arrow": "frames:stream.arrow"}, 10, ""},
		"several tables": {map[string]string{"README.md": "#", "a.jsonl": row, "b.jsonl": row}, 0, "2 tables"},
		"no data":        {map[string]string{"snapshots/abc/README.md": "#"}, 0, "no data files"},
		"no data set":    {map[string]string{"notes.txt": "#"}, 0, "is a directory"},
		"damaged":        {map[string]string{"a.parquet": "PAR1 and more of it PAR1"}, 0, "Parquet"},
	} {
		o := formats.Options{LeftOpen: formats.LeftOpen{Columns: "arrival=time,input=prompt,output=answer"}}
		s, err := OpenPath(putFiles(t, c.files), nil, o)
		n := 0
		if err == nil {
			w, wrong := s.Workload()
			if err = wrong; err == nil {
				n = len(w.Turns)
			}
			s.Close()
		}
		if n != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d requests, %v; must be %d, %q", name, n, err, c.want, c.err)
		}
	}
}
