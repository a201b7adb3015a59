package html

import (
	"bytes"
	"compress/gzip"
	"flag"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/json"
)

var rewrite = flag.Bool("rewrite", false, "write assets.json.gz")

// assets.json.gz has the current files of assets, without comments. The flag -rewrite updates assets.json.gz.
func TestAssetsArePacked(t *testing.T) {
	entries, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, entry := range entries {
		text, err := os.ReadFile("assets/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = withoutComments(entry.Name(), string(text))
	}
	if *rewrite {
		packAssets(t, files)
		return
	}
	packed, err := readAssets()
	if err != nil || !maps.Equal(packed, files) {
		t.Errorf("assets.json.gz does not hold the files of assets (%v): go test ./report/html -run TestAssetsArePacked -rewrite", err)
	}
}

// withoutComments returns a script without the lines that are comments.
func withoutComments(name, text string) string {
	if !strings.HasSuffix(name, ".js") {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// packAssets writes assets.json.gz.
func packAssets(t *testing.T, files map[string]string) {
	t.Helper()
	text, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("assets.json.gz", packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
