package scan

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// Input is an open trace file that is decompressed during reading.
type Input struct {
	Name string // for messages

	in     io.Reader
	file   *os.File      // nil for stdin
	zstd   *zstd.Decoder // nil unless compressed with zstd
	packed string        // compression or data frame format; "" for plain files
	frames bool          // read Parquet and Arrow files as lines
	Size   int64         // size of a plain file in bytes; 0 if unknown
}

// Open opens the trace at path. "-" is stdin. gzip, zstd, Parquet and Arrow are detected by the first bytes of the
// file. Compressed files are decompressed. The rows of Parquet and Arrow files become lines of JSON.
func Open(path string, stdin io.Reader) (*Input, error) {
	if path == "-" {
		f := &Input{Name: "<stdin>", frames: true}
		return f, f.unpack(stdin, foreignFormat)
	}
	return openFile(path, true, foreignFormat)
}

// OpenPacked opens a file of any type. OpenPacked decompresses gzip and zstd.
func OpenPacked(path string) (*Input, error) {
	return openFile(path, false, func([]byte) string { return "" })
}

// openFile opens a file. refuse gets the first bytes of the file and returns the reason to reject it, or "". If
// frames is set, the rows of Parquet and Arrow files become lines.
func openFile(path string, frames bool, refuse func(head []byte) string) (*Input, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err // contains the path
	}
	f := &Input{Name: path, file: file, frames: frames}
	stat, err := file.Stat()
	if err == nil && stat.IsDir() {
		err = fmt.Errorf("%s: is a directory, must be a file", path)
	}
	if err == nil {
		err = f.unpack(file, refuse)
	}
	if err == nil && f.packed == "" && stat.Mode().IsRegular() {
		f.Size = stat.Size()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// unpack reads the first bytes of r and sets the reader for its format.
func (f *Input) unpack(r io.Reader, refuse func(head []byte) string) error {
	in := bufio.NewReaderSize(r, headBuffer)
	head, err := in.Peek(len(lfsHead))
	if err != nil && err != io.EOF {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if kind := kindOfFrames(head); kind != "" && f.frames {
		f.packed = kind
		f.in, err = openFrames(kind, f.file, in)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, f.explain(err))
		}
		return nil
	}
	if what := refuse(head); what != "" {
		return fmt.Errorf("%s: %s, must be JSON lines, plain or packed with gzip or zstd, Parquet or Arrow", f.Name, what)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		f.packed = "gzip"
		f.in, err = gzip.NewReader(in)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		f.packed = "zstd"
		f.zstd, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
		f.in = f.zstd
	default:
		f.in, err = in, nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, f.explain(err))
	}
	return nil
}

const (
	// headBuffer is smaller than the buffers of readers on top of it, so that they read past it.
	headBuffer = readBuffer / 4

	lfsHead   = "version https://git-lfs"
	maxWindow = 512 << 20 // maximum memory for a zstd file in bytes
)

// foreignFormat returns the reason why a file is not a trace, by its first bytes.
func foreignFormat(head []byte) string {
	for _, k := range []struct{ head, what string }{
		{lfsHead, "is a Git LFS pointer; fetch the real file"},
		{"PK\x03\x04", "is a zip archive"},
		{"FEA1", "is a Feather file of version 1"},
		{"\xff\xfe", "is UTF-16"},
		{"\xfe\xff", "is UTF-16"},
		{"<", "looks like HTML"},
	} {
		if bytes.HasPrefix(head, []byte(k.head)) {
			return k.what
		}
	}
	return ""
}

func (f *Input) Read(p []byte) (int, error) {
	n, err := f.in.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, f.explain(err)
}

// explain adds to err that the compressed data is invalid.
func (f *Input) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case f.packed == "":
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF:
		return fmt.Errorf("the %s data is cut short, must be the whole file", f.packed)
	}
	return fmt.Errorf("the %s data is damaged: %w", f.packed, err)
}

// Close closes the file, unless it is stdin.
func (f *Input) Close() error {
	if f.zstd != nil {
		f.zstd.Close()
	}
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
