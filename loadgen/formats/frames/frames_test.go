package frames

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readLines returns the rows of a data frame file as lines. testdata/write.py writes the files of testdata.
func readLines(t *testing.T, text []byte) ([]string, error) {
	t.Helper()
	r, err := Open(KindOf(text[:min(24, len(text))]), bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	var all []string
	s := bufio.NewScanner(r)
	for s.Scan() {
		all = append(all, s.Text())
	}
	return all, s.Err()
}

// TestFilesAreLines checks that files written by pyarrow and Polars give the same lines for the same table.
func TestFilesAreLines(t *testing.T) {
	want := []string{
		`{"time":"2024-05-01T12:00:00Z","prompt":100,"answer":5,"ids":null,"model":null,"score":0,"turns":[],"ok":true}`,
		`{"time":"2024-05-01T12:00:00.25Z","prompt":101,"answer":6,"ids":[0,1,1],"model":"chat","score":0.25,"turns":[{"role":"user","content":"question 1 \"ä\""}],"ok":false}`,
		`{"time":"2024-05-01T12:00:00.5Z","prompt":102,"answer":7,"ids":null,"model":"chat","score":0.5,"turns":[{"role":"user","content":"question 2 \"ä\""},{"role":"assistant","content":"a long answer of more than twelve bytes"}],"ok":true}`,
	}
	paths, err := filepath.Glob("testdata/*.[afp]*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range paths {
		if strings.HasSuffix(path, ".py") {
			continue
		}
		n++
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := readLines(t, text)
		if err != nil || len(lines) != 10 || !slices.Equal(lines[:3], want) {
			t.Errorf("%s: %d lines, %v\n%s\nmust begin with\n%s", path, len(lines), err, strings.Join(lines[:min(3, len(lines))], "\n"), strings.Join(want, "\n"))
		}
	}
	if n != 7 {
		t.Errorf("%d files, must be 7", n)
	}
}

// TestDamagedFiles checks that damaged files cause no panic.
func TestDamagedFiles(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"lz4.feather", "stream.arrow", "polars.arrow", "pyarrow.parquet"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for range 1500 {
			damaged := slices.Clone(text)
			for range 1 + draw.IntN(4) {
				damaged[draw.IntN(len(damaged))] = byte(draw.IntN(256))
			}
			_, _ = readLines(t, damaged)
		}
		for n := 24; n < len(text); n += 7 {
			_, _ = readLines(t, text[:n])
		}
	}
}

// TestReadAll reads a file from a reader without random access.
func TestReadAll(t *testing.T) {
	text, err := os.ReadFile("testdata/pyarrow.parquet")
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadAll("Parquet", io.MultiReader(bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || bytes.Count(got, []byte("\n")) != 10 {
		t.Errorf("%s, %v; must be 10 lines", got, err)
	}
}
