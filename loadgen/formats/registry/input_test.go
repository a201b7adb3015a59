package registry

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

func pack(t *testing.T, kind, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch kind {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	default:
		return []byte(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOpen(t *testing.T) {
	text := strings.Repeat(twoSessions, 5000)
	twoParts := append(pack(t, "gzip", text), pack(t, "gzip", "the end")...)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"plain", []byte(text), text},
		{"short", []byte("{}"), "{}"},
		{"empty", nil, ""},
		{"gzip", pack(t, "gzip", text), text},
		{"gzip in two members", twoParts, text + "the end"},
		{"zstd", pack(t, "zstd", text), text},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "day")
			if err := os.WriteFile(path, c.bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{path, "-"} {
				f, err := scan.Open(from, bytes.NewReader(c.bytes))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(f)
				if err != nil || string(got) != c.want {
					t.Errorf("%s: %d bytes, %v; want %d", from, len(got), err, len(c.want))
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	text := strings.Repeat(unsorted, 50)
	zipped, squeezed := pack(t, "gzip", text), pack(t, "zstd", text)
	flipped := bytes.Clone(zipped)
	flipped[len(flipped)-6] ^= 1 // the checksum
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"gzip cut in its data", zipped[:len(zipped)-20], "the gzip data is cut short, must be the whole file"},
		{"gzip cut in its head", zipped[:5], "DAY: the gzip data is cut short, must be the whole file"},
		{"gzip damaged", flipped, "the gzip data is damaged: gzip: invalid checksum"},
		{"gzip and junk", append(bytes.Clone(zipped), "junk, no second member"...), "the gzip data is damaged: gzip: invalid header"},
		{"zstd cut", squeezed[:len(squeezed)-10], "the zstd data is cut short, must be the whole file"},
		{"a pointer", []byte("version https://git-lfs.github.com/spec/v1\noid"), "DAY: is a Git LFS pointer; fetch the real file, must be JSON lines, plain or packed with gzip or zstd, Parquet or Arrow"},
		{"zip", []byte("PK\x03\x04"), "DAY: is a zip archive, must be JSON lines, plain or packed with gzip or zstd, Parquet or Arrow"},
		{"parquet", []byte("PAR1..."), "DAY: the Parquet data is damaged: not a Parquet file"},
		{"UTF-16", []byte("\xff\xfe{\x00"), "DAY: is UTF-16, must be JSON lines, plain or packed with gzip or zstd, Parquet or Arrow"},
		{"HTML", []byte("<!doctype html>"), "DAY: looks like HTML, must be JSON lines, plain or packed with gzip or zstd, Parquet or Arrow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "day")
			if err := os.WriteFile(path, c.bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := scan.Open(path, nil)
			if err == nil {
				_, err = Read(f, "DAY", formats.Options{Format: formats.Mooncake, TraceBlock: 64})
				err = stripPlace(err)
				f.Close()
			}
			if err == nil || strings.ReplaceAll(err.Error(), path, "DAY") != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := scan.Open(t.TempDir(), nil); err == nil || !strings.HasSuffix(err.Error(), ": is a directory, must be a file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := scan.Open(filepath.Join(t.TempDir(), "none"), nil); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// stripPlace returns the cause of a read error without its line number.
func stripPlace(err error) error {
	if scan.IsFatal(err) {
		return errors.Unwrap(errors.Unwrap(err))
	}
	return err
}
