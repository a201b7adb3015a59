package formats

import (
	"fmt"
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
	s.close, s.lines.size = in.Close, in.Size()
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
	switch {
	case err != nil:
		return nil, err
	case len(numbers) > 0 && (o.Format == "" || o.Format == "auto" || o.Format == "servegen"):
		s.Format = "servegen"
		if err := s.refuseUnused(); err != nil {
			return nil, err
		}
		clients, err := readClients(dir, numbers)
		if err != nil {
			return nil, err
		}
		s.rows = openServeGen(s, clients)
	case len(conversations) > 0 && (o.Format == "" || o.Format == "auto" || o.Format == "weka"):
		s.Format = "weka"
		if err := s.refuseUnused(); err != nil {
			return nil, err
		}
		w := newWeka(s)
		s.rows = w
		if err := w.readFiles(conversations, os.ReadFile); err != nil {
			return nil, err
		}
	default:
		return nil, &loadgen.SyntaxError{Name: dir, Msg: "is a directory without chunk-N-trace.csv and without conversations, want a file, or files of servegen or weka"}
	}
	return s, s.finishOpening()
}

func readClients(dir string, numbers []int) ([]*client, error) {
	var clients []*client
	for _, n := range numbers {
		trace, data := filepath.Join(dir, fmt.Sprintf("chunk-%d-trace.csv", n)), filepath.Join(dir, fmt.Sprintf("chunk-%d-dataset.json", n))
		rates, err := os.ReadFile(trace)
		if err != nil {
			return nil, err
		}
		lengths, err := os.ReadFile(data)
		if err != nil {
			return nil, err
		}
		c, err := parseClient(n, trace, rates, data, lengths)
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}
