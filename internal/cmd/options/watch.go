package options

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// Watching is the flag --watch for a live view. The value of the flag is a boolean or an interval.
type Watching struct {
	On    bool
	Every time.Duration // 0: the default interval
	text  string
	given int // number of times that the flag was set
}

func (w *Watching) bindFlag(fs *pflag.FlagSet) {
	fs.VarPF(w, "watch", "", "show the state of the replay on standard error while it runs, updated after each `interval`, as 2s").NoOptDefVal = "true"
}

// String returns the text of the flag.
func (w *Watching) String() string { return w.text }

// Type returns the type name of the flag.
func (w *Watching) Type() string { return "interval" }

// shortestWatch is the minimum interval between two updates of the view.
const shortestWatch = 50 * time.Millisecond

// Set parses true, false or an interval.
func (w *Watching) Set(text string) error {
	given := w.given + 1
	switch text {
	case "true":
		*w = Watching{On: true, text: text, given: given}
		return nil
	case "false":
		*w = Watching{text: text, given: given}
		return nil
	}
	every, err := time.ParseDuration(text)
	if err != nil || every < shortestWatch {
		return errors.New("must be nothing, or a time of at least 50ms, as 2s")
	}
	*w = Watching{On: true, Every: every, text: text, given: given}
	return nil
}

// checkFiles returns an error for an interval instead of a trace, because it was intended as the value of --watch.
func (w *Watching) checkFiles(args []string) error {
	for _, arg := range args {
		if _, err := time.ParseDuration(arg); !w.On || err != nil {
			continue
		}
		if _, err := os.Stat(arg); err != nil {
			return cli.Usagef("%s: no such file; the interval of --watch stands behind a =, as --watch=%s", arg, arg)
		}
	}
	return nil
}

// StripFrom removes --watch from a command line, because it does not affect recorded results. If another argument
// resembles the flag, such as the name of a file, StripFrom removes nothing.
func (w *Watching) StripFrom(args []string) []string {
	isFlag := func(arg string) bool { return arg == "--watch" || strings.HasPrefix(arg, "--watch=") }
	words := 0
	for _, arg := range args {
		if isFlag(arg) {
			words++
		}
	}
	if words == 0 || words > w.given {
		return args
	}
	return slices.DeleteFunc(slices.Clone(args), isFlag)
}
