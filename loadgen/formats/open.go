package formats

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/loadgen"
)

// OpenPath starts reading the trace at path: a file, plain or packed, a
// directory of ServeGen clients or of conversations, or "-" for stdin. The
// stream is to be closed.
func OpenPath(path string, stdin io.Reader, o Options) (*Stream, error) {
	if stat, err := os.Stat(path); path != "-" && err == nil && stat.IsDir() && !isReferences(o.Format) {
		return openDirectory(path, o)
	}
	in, err := Open(path, stdin)
	if err != nil {
		return nil, err
	}
	s, err := NewStream(untilStopped{in, o.Stop}, in.Name, o)
	if err != nil {
		in.Close()
		return nil, err
	}
	s.close, s.lines.size = in.Close, in.size
	return s, nil
}

// untilStopped is a reader that fails once stop says so.
type untilStopped struct {
	in   io.Reader
	stop func() error
}

func (u untilStopped) Read(p []byte) (int, error) {
	if u.stop != nil {
		if err := u.stop(); err != nil {
			return 0, err
		}
	}
	return u.in.Read(p)
}

// openDirectory reads all files of a directory at once.
func openDirectory(dir string, o Options) (*Stream, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var names, conversations []string
	for _, e := range entries {
		names = append(names, e.Name())
		if n := e.Name(); strings.HasSuffix(n, ".json") || strings.HasSuffix(n, ".jsonl") {
			conversations = append(conversations, filepath.Join(dir, n))
		}
	}
	s := &Stream{Name: dir, o: o}
	if err := s.checkOptions(); err != nil {
		return nil, err
	}
	numbers, err := findPairs(dir, names)
	if err != nil {
		return nil, err
	}
	if o.Columns != "" {
		return nil, &loadgen.SyntaxError{Name: dir, Msg: "is a directory, want a file whose columns are said"}
	}
	auto := o.Format == "" || o.Format == "auto"
	switch {
	case len(numbers) > 0 && (auto || o.Format == "servegen"):
		s.Format = "servegen"
	case len(conversations) > 0 && (auto || o.Format == "weka"):
		s.Format = "weka"
	default:
		return nil, &loadgen.SyntaxError{Name: dir, Msg: "is a directory without chunk-N-trace.csv and without conversations, want a file, or files of servegen or weka"}
	}
	if err := s.refuseUnused(); err != nil {
		return nil, err
	}
	if s.Format == "weka" {
		w := newWeka(s)
		s.rows, err = w, w.readFiles(conversations)
	} else {
		s.rows, err = openServeGen(s, dir, numbers)
	}
	if err != nil {
		return nil, err
	}
	return s, s.finishOpening()
}
