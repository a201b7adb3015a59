package runs

import (
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/rundir"
)

// inputs are the files that a run reads, which are hashed while it does.
type inputs struct {
	files []inputFile
	ended chan struct{}

	// When ended is closed.
	all []rundir.Input
	err error
}

type inputFile struct{ role, path string }

// addTrace adds a trace, the files of one that is a directory, or those that
// laws draw from.
func (in *inputs) addTrace(t *replay.Trace) error {
	paths := []string{t.Path}
	if entries, err := os.ReadDir(t.Path); err == nil { // sorted by name
		for _, e := range entries {
			paths = append(paths, filepath.Join(t.Path, e.Name()))
		}
	}
	for _, path := range paths {
		if err := in.addFile("trace", path); err != nil {
			return err
		}
	}
	for _, class := range t.Made.Classes {
		if err := in.addFile("lengths", class.LengthsFrom); err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a file, when there is one.
func (in *inputs) addFile(role, path string) error {
	if st, err := os.Stat(path); err == nil && !st.IsDir() && !st.Mode().IsRegular() {
		return fmt.Errorf("%s: can be read once only, want a regular file, or - for standard input, with --out or --digest", path)
	} else if err != nil || st.IsDir() {
		return nil // the run says it better
	}
	in.files = append(in.files, inputFile{role, path})
	return nil
}

// hashFiles begins to hash the files, on another goroutine.
func (in *inputs) hashFiles() {
	in.ended = make(chan struct{})
	go func() {
		defer close(in.ended)
		for _, f := range in.files {
			hashed, err := rundir.HashFile(f.role, f.path)
			if err != nil {
				in.err = err
				return
			}
			in.all = append(in.all, hashed)
		}
	}()
}

// hashedFiles waits for the hashes.
func (in *inputs) hashedFiles() ([]rundir.Input, error) {
	<-in.ended
	return in.all, in.err
}

// hashed is a reader that hashes what goes through it.
type hashed struct {
	in   io.Reader
	hash hash.Hash
	n    int64
}

func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.in.Read(p)
	h.hash.Write(p[:n])
	h.n += int64(n)
	return n, err
}

// inputRead is what has been read.
func (h *hashed) inputRead() rundir.Input {
	return rundir.Input{Role: "trace", Path: "-", Bytes: h.n, SHA256: hex.EncodeToString(h.hash.Sum(nil))}
}
