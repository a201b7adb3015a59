package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/scheduler/timing"
)

// inputs are the input files of a run. The files are hashed in the background.
type inputs struct {
	files   []rundir.Input // without hashes until reading is done
	stdin   *hashed        // hashes the trace if it is read from standard input; nil: it is not
	reading sync.WaitGroup
	err     error // valid when reading is done
}

// hashInputs starts hashing the input files of a run. If the trace is read from standard input, it replaces *stdin
// with a reader that also hashes.
func hashInputs(spec *replay.Spec, stdin *io.Reader) (*inputs, error) {
	in := &inputs{}
	if t := spec.Trace; t != nil && t.Path == "-" {
		in.stdin = &hashed{in: *stdin, hash: sha256.New()}
		*stdin = in.stdin
	} else if t != nil {
		if err := in.addTrace(t); err != nil {
			return nil, err
		}
	}
	for i := range spec.Pools {
		for _, kind := range spec.Pools[i].Kinds() {
			if times := kind.Engine.PassTimes; times.Form() == timing.File {
				if err := in.addFile("profile", times.String()); err != nil {
					return nil, err
				}
			}
		}
	}
	if spec.Warm != nil {
		if err := in.addFile("caches", spec.Warm.Path); err != nil {
			return nil, err
		}
	}
	in.reading.Go(in.hashFiles)
	return in, nil
}

// HashTrace returns the hashes of the files of a trace, in the order of the digest.
func HashTrace(t *replay.Trace) ([]rundir.Input, error) {
	in := &inputs{}
	if err := in.addTrace(t); err != nil {
		return nil, err
	}
	in.hashFiles()
	return in.files, in.err
}

// hashFiles hashes all files. hashFiles stops at the first error.
func (in *inputs) hashFiles() {
	for i := range in.files {
		f := &in.files[i]
		if *f, in.err = rundir.HashFile(f.Role, f.Path); in.err != nil {
			return
		}
	}
}

// addTrace adds the files of a trace, which may be a directory, and the files from which a generated trace draws
// lengths.
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

// addFile adds a file, if it exists.
func (in *inputs) addFile(role, path string) error {
	if st, err := os.Stat(path); err == nil && !st.IsDir() && !st.Mode().IsRegular() {
		return fmt.Errorf("%s: can be read only once, use a regular file, or - for standard input, with --out or --digest", path)
	} else if err != nil || st.IsDir() {
		return nil // the run reports a better error
	}
	in.files = append(in.files, rundir.Input{Role: role, Path: path})
	return nil
}

// hashedFiles waits until all files are hashed and returns them.
func (in *inputs) hashedFiles() ([]rundir.Input, error) {
	in.reading.Wait()
	if in.err != nil || in.stdin == nil {
		return in.files, in.err
	}
	return slices.Insert(in.files, 0, in.stdin.inputRead()), nil
}

// hashed is a reader that hashes the bytes it reads.
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

// inputRead returns the hash of the bytes that were read.
func (h *hashed) inputRead() rundir.Input {
	return rundir.Input{Role: "trace", Path: "-", Bytes: h.n, SHA256: hex.EncodeToString(h.hash.Sum(nil))}
}
