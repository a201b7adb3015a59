package runs

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/rundir"
)

// watched is a recording with its observers. watched contains no pointers to shared state, so that a copy of a replay
// has a separate copy.
type watched struct {
	observers
	recording
}

// forkOut writes a run directory for each future of a fork. forkOut is nil without --out.
type forkOut struct {
	base    run
	command []string // command of the unchanged replay, without the flags for outputs
	path    string
	names   []string // names of the directories
	inputs  []rundir.Input
	group   *rundir.Group
}

// newForkOut creates the directory path for the run directories of the futures of x. names are the names of these
// directories.
func newForkOut(s cli.Streams, x *forked, path string, names []string) (*forkOut, error) {
	group, err := rundir.NewGroup(path)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	x.o.RecordIn(path)
	out := &forkOut{base: run{s: s, o: x.o, spec: x.spec, stdin: s.In}, command: x.command, path: path, names: names, group: group}
	if err := out.base.openRecording(); err != nil {
		return nil, errors.Join(err, group.Close())
	}
	return out, nil
}

// watch returns the observers for the recording of a replay.
func (out *forkOut) watch() (*watched, error) {
	own := out.base
	if err := own.openWatching(); err != nil {
		return nil, err
	}
	own.inputs = nil // all futures have the same inputs
	seen := &watched{own.watching(), own.recording}
	seen.growAll(len(own.workload.Turns))
	return seen, nil
}

// savedLine returns a line with the paths of the directories.
func (out *forkOut) savedLine() string {
	const most = 6
	all := slices.Clone(out.names[:min(len(out.names), most)])
	if more := len(out.names) - most; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return terminal.WrapLine(fmt.Sprintf("Saved runs to: %s (%s)", out.path, strings.Join(all, ", ")), 4)
}

// takeWorkload sets the workload and the hashes of the input files, which all futures share.
func (out *forkOut) takeWorkload(w *loadgen.Workload) (err error) {
	out.base.workload = w
	out.inputs, err = out.base.inputs.hashedFiles()
	return err
}

// write writes the run directory of a future.
func (out *forkOut) write(ctx context.Context, f *futureRun, seen recording, result *harness.Result) error {
	name := out.names[f.index]
	r := out.base
	r.spec, r.recording, r.result = f.spec, seen, result
	r.inputs = &inputs{files: slices.Clone(out.inputs)}
	r.s = cli.Streams{Args: slices.Concat(out.command, f.flags, []string{"--out=" + filepath.Join(out.path, name)}), Out: io.Discard, Err: io.Discard}
	if err := r.study(ctx); err != nil {
		return err
	}
	r.run.Lines = append(r.missingLines(), r.lines...)
	if err := out.group.Write(ctx, &r.run, name, r.listFiles()); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// keep renames the temporary directories to their final names.
func (out *forkOut) keep(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		if err = out.group.Keep(); err != nil {
			err = fmt.Errorf("--out: %w", err)
		}
	}
	return err
}

// changeFlags returns the flags with which a single replay makes the change of a future.
func changeFlags(at string, settings []plan.Setting) []string {
	if len(settings) == 0 {
		return nil
	}
	pairs := []string{"at=" + at}
	for _, s := range settings {
		pairs = append(pairs, s.Name+"="+s.Value)
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(pairs) // a strings.Builder returns no errors
	w.Flush()
	return []string{"--change=" + strings.TrimSuffix(b.String(), "\n")}
}

// commandOf returns a command line with verb, the files and the flags in args. commandOf removes the flags in
// without.
func commandOf(verb string, fs *pflag.FlagSet, args, without []string) ([]string, error) {
	var flags []string
	err := fs.ParseAll(args, func(f *pflag.Flag, value string) error {
		if !slices.Contains(without, f.Name) {
			flags = append(flags, "--"+f.Name+"="+value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	files := fs.Args()
	if len(files) > 0 && strings.HasPrefix(files[0], "-") && files[0] != "-" {
		files[0] = "./" + files[0] // the name of a file
	}
	return slices.Concat([]string{verb}, files, flags), nil
}

// longestName is the maximum length of the name of a directory.
const longestName = 100

// nameDirs returns unique names for the directories of futures. The names are based on the names of the futures, and
// have only characters that are valid on all file systems.
func nameDirs(t *forkTable) []string {
	taken := map[string]bool{}
	var all []string
	for i := range t.Futures {
		plain := strings.Map(func(r rune) rune {
			if r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._=,+-", r)) {
				return r
			}
			return '-'
		}, t.Futures[i].Name)
		plain = strings.TrimRight(plain[:min(len(plain), longestName)], ".")
		if plain == "" || strings.HasPrefix(plain, ".") || strings.HasPrefix(plain, "-") {
			plain = "_" + plain
		}
		name := plain
		for n := 2; taken[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s-%d", plain, n)
		}
		taken[strings.ToLower(name)] = true
		all = append(all, name)
	}
	return all
}
