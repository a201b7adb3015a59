package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive or of the release.
type file struct {
	name    string
	data    []byte
	program bool // the file is executable
}

func (f file) mode() int64 {
	if f.program {
		return 0o755
	}
	return 0o644
}

// sortFiles returns files sorted by name.
func sortFiles(files []file) []file {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return sorted
}

// packTar returns files as a compressed tar archive below a folder. The archive does not contain the build machine or
// the build time.
func packTar(folder string, files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := writeTar(z, folder+"/", sortFiles(files), at); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// writeTar writes a tar archive of files in their order.
func writeTar(w io.Writer, prefix string, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: prefix + f.name, Mode: f.mode(), Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o1777
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// packZip returns files as a zip archive below a folder; "": no folder.
func packZip(folder string, files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, f := range sortFiles(files) {
		h := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: at.UTC()}
		h.SetMode(fs.FileMode(f.mode()))
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
