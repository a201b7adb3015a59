package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/json"
)

const logFormat = "log-format"

// BindLogFormat adds the flag --log-format to a command that serves requests.
func BindLogFormat(fs *pflag.FlagSet) {
	fs.Var(&Choice{Names: []string{"text", "json"}, Value: "text"}, logFormat, "write messages on standard error as text, or as one line of JSON each: `text or json`")
}

// withLogFormat returns s with a standard error in the format that --log-format requests.
func (s Streams) withLogFormat() Streams {
	if !slices.ContainsFunc(s.Args, func(arg string) bool { return strings.HasPrefix(arg, "--"+logFormat) }) {
		return s
	}
	if flags := s.commandFlags(); flags != nil {
		if f := flags.Lookup(logFormat); f != nil && f.Value.String() == "json" {
			s.Err = &jsonLog{to: s.Err, now: time.Now}
		}
	}
	return s
}

// JSONLog returns a writer for lines of JSON. JSONLog reports false if messages are text.
func (s Streams) JSONLog() (io.Writer, bool) {
	log, ok := s.Err.(*jsonLog)
	if !ok {
		return nil, false
	}
	return log.to, true
}

// jsonLog writes messages as lines of JSON with the keys and levels of log/slog.
type jsonLog struct {
	to   io.Writer
	now  func() time.Time
	mu   sync.Mutex
	rest []byte // an incomplete line
}

// Write logs complete lines. Warnings have the level WARN, and all other messages have INFO.
func (l *jsonLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	end := bytes.LastIndexByte(l.rest, '\n')
	if end < 0 {
		return len(text), nil
	}
	message, level := strings.TrimSpace(string(l.rest[:end])), "INFO"
	l.rest = append(l.rest[:0], l.rest[end+1:]...)
	if cut, ok := strings.CutPrefix(message, FormatWarning("")); ok {
		message, level = cut, "WARN"
	}
	return len(text), l.log(level, strings.TrimPrefix(message, FormatNote("")))
}

// log writes a message as one line of JSON.
func (l *jsonLog) log(level, message string) error {
	if message == "" {
		return nil
	}
	line, err := json.Marshal(logLine{l.now().Format(time.RFC3339Nano), level, message})
	if err == nil {
		_, err = fmt.Fprintf(l.to, "%s\n", line)
	}
	return err
}

type logLine struct {
	Time    string `json:"time"`
	Level   string `json:"level"`
	Message string `json:"msg"`
}
