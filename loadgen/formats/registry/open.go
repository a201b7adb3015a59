package registry

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/formats/servegen"
	"github.com/replay-llm/replay/loadgen/formats/sessions"
	"github.com/replay-llm/replay/loadgen/formats/tables"
	"github.com/replay-llm/replay/loadgen/formats/texts"
)

// OpenPath opens the trace at path. path is a file (also compressed), a data set directory, or "-" for stdin. The
// caller must close the stream.
func OpenPath(path string, stdin io.Reader, o formats.Options) (*formats.Stream, error) {
	if path != "-" && isDir(path) {
		files, err := findHubTable(path)
		if err != nil {
			return nil, err
		}
		if files != nil && o.Format != "weka" && o.Format != "servegen" {
			return openHub(path, files, o)
		}
		if !isReferences(o.Format) {
			return openDirectory(path, o)
		}
	}
	in, err := scan.Open(path, stdin)
	if err != nil {
		return nil, err
	}
	s, err := openStream(untilStopped{in, o.Stop}, in.Name, in.Size, o)
	if err != nil {
		in.Close()
		return nil, err
	}
	s.Own(in)
	return s, nil
}

// openHub opens the files of a data set in a directory.
func openHub(dir string, files []string, o formats.Options) (*formats.Stream, error) {
	in := &chain{files: files}
	s, err := openStream(untilStopped{in, o.Stop}, dir, 0, o)
	if err != nil {
		in.Close()
		return nil, err
	}
	s.Own(in)
	return s, nil
}

// NewStream opens a trace that is read from r. r must not be compressed. Messages contain name.
func NewStream(r io.Reader, name string, o formats.Options) (*formats.Stream, error) {
	return openStream(r, name, 0, o)
}

// Read returns the workload of a trace in any format.
func Read(r io.Reader, name string, o formats.Options) (*loadgen.Workload, error) {
	s, err := NewStream(r, name, o)
	if err != nil {
		return nil, err
	}
	return s.Workload()
}

// openStream opens a trace that is read from r. size is the number of bytes, or 0 if unknown.
func openStream(r io.Reader, name string, size int64, o formats.Options) (*formats.Stream, error) {
	s, err := formats.Start(r, name, size, o)
	if err != nil {
		return nil, err
	}
	k, err := detectKind(s)
	if err != nil {
		return nil, err
	}
	s.Format = k.name
	if err := refuseUnused(s); err != nil {
		return nil, err
	}
	if s.Format == formats.Mooncake && o.SkipBad != 0 {
		return nil, fmt.Errorf("%s: is mooncake, of which no row is skipped; expected the file without bad rows (replay traces validate lists them)", name)
	}
	rows, err := k.open(s)
	if err != nil {
		return nil, err
	}
	return s, s.Begin(rows)
}

// untilStopped is a reader that fails after stop returns an error.
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

// openDirectory opens a directory in the format servegen or weka.
func openDirectory(dir string, o formats.Options) (*formats.Stream, error) {
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
	s, err := formats.Start(strings.NewReader(""), dir, 0, o)
	if err != nil {
		return nil, err
	}
	numbers, err := servegen.FindClients(dir, names)
	if err != nil {
		return nil, err
	}
	if o.Columns != "" {
		return nil, &loadgen.SyntaxError{Name: dir, Msg: "is a directory, must be a file with --columns"}
	}
	auto := o.Format == "" || o.Format == "auto"
	switch {
	case len(numbers) > 0 && (auto || o.Format == "servegen"):
		s.Format = "servegen"
	case len(conversations) > 0 && (auto || o.Format == "weka"):
		s.Format = "weka"
	default:
		return nil, &loadgen.SyntaxError{Name: dir, Msg: "is a directory without data files, must be a file, or a directory of a hub's data set, of servegen or of weka"}
	}
	if err := refuseUnused(s); err != nil {
		return nil, err
	}
	var rows formats.Reader
	if s.Format == "weka" {
		rows, err = sessions.OpenFiles(s, conversations)
	} else {
		rows, err = servegen.Open(s, dir, numbers)
	}
	if err != nil {
		return nil, err
	}
	return s, s.Begin(rows)
}

// textFormats returns the formats in which all prompts are text.
func textFormats() []string {
	return []string{"mooncake-text", "aiperf-inputs", "aiperf-turns", "openai-batch", texts.Conversations, "vllm-custom"}
}

// countedFormats returns the formats with text of which a tokenizer can count the tokens.
func countedFormats() []string {
	return append([]string{"genai-perf", "inference-perf", texts.VLLMLog}, textFormats()...)
}

// HasTexts reports whether the trace at path has text of which a tokenizer can count the tokens. HasTexts does not
// read stdin.
func HasTexts(path string) bool {
	if path == "-" {
		return false
	}
	s, err := OpenPath(path, nil, formats.Options{})
	if err != nil {
		return false
	}
	s.Close()
	return slices.Contains(countedFormats(), s.Format)
}

// refuseUnused returns an error for options that have no effect on the format, if Strict is set.
func refuseUnused(s *formats.Stream) error {
	if !s.Options.Strict {
		return nil
	}
	o := &s.Options
	always := textFormats()
	for _, c := range []struct {
		set     bool
		what    string
		formats []string
	}{
		{o.Model != "", "a model", []string{"burstgpt"}},
		{o.Jitter != "", "jitter", []string{"burstgpt", texts.VLLMLog}},
		{o.Run != 0, "the number of a run", []string{"vllm-bench", "sglang-bench", "genai-perf", "guidellm"}},
		{o.ImageTokens != 0, "the size of images", []string{"azure-mm"}},
		{o.PriorityFrom != "", "the field of a priority", []string{"mooncake", "mooncake-delta"}},
		{o.Rate != 0, "a rate of arrivals", append([]string{"vidur-lengths", "weka", tables.Columns, "servegen", "vllm-bench", "sglang-bench"}, always...)},
		{o.From != 0 || o.To != 0, "a span", []string{"servegen"}},
		{o.TokensPerByte != 0, "the length of texts", countedFormats()},
		{o.Tokenizer != "", "a tokenizer", countedFormats()},
		{o.OutputTokens != 0, "the length of answers", append([]string{texts.VLLMLog}, always...)},
		{o.DAG != "" && o.DAG != "graph", "what to do with a DAG", []string{formats.Tasks, "agentic_mooncake", "dynamo", "weka", "guidellm"}},
		{o.DAG == "graph", "a graph", []string{formats.Tasks, "agentic_mooncake", "dynamo", "weka", "bailian"}},
	} {
		if c.set && !slices.Contains(c.formats, s.Format) {
			return fmt.Errorf("%s: is %s, in which %s changes nothing; use it with %s", s.Name, s.Format, c.what, strings.Join(c.formats, ", "))
		}
	}
	return nil
}
