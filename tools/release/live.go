package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// checkLive unpacks an archive of this platform and runs its program. The program must make a live page of a run
// without further files.
func (r *release) checkLive(name string, archive []byte) error {
	dir, err := os.MkdirTemp("", "release-archive-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpackTar(dir, archive); err != nil {
		return err
	}
	program := filepath.Join(dir, strings.TrimSuffix(name, ".tar.gz"), listPrograms()[0])
	trace, run, page := filepath.Join(dir, "trace.jsonl"), filepath.Join(dir, "run"), filepath.Join(dir, "page.html")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":8,"output_length":2,"hash_ids":[1]}`+"\n"), 0o600); err != nil {
		return err
	}
	if _, err := r.run(dir, nil, program, "trace", trace, "--trace-block-size", "8", "--out", run); err != nil {
		return err
	}
	if _, err := r.run(dir, nil, program, "report", run, "--html", page, "--live"); err != nil {
		return err
	}
	if made, err := os.Stat(page); err != nil || made.Size() == 0 {
		return fmt.Errorf("report --live: no page is made: %w", err)
	}
	return nil
}

// unpackTar unpacks an archive of packTar into a folder.
func unpackTar(dir string, archive []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, h.FileInfo().Mode()); err != nil {
			return err
		}
	}
}
