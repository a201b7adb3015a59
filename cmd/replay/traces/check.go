package traces

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// wantOne rejects a command without any of the named flags, since it would have no effect.
func wantOne(fs *pflag.FlagSet, what string, names ...string) error {
	if slices.ContainsFunc(names, fs.Changed) {
		return nil
	}
	last := len(names) - 1
	return cli.Usagef("%s: use --%s or --%s", what, strings.Join(names[:last], ", --"), names[last])
}

// wantAbove rejects numbers that are not finite, or not above a bound; atIt also accepts the bound.
func wantAbove(fs *pflag.FlagSet, bound float64, atIt bool, names ...string) error {
	word := "a finite number > "
	if atIt {
		word = "a finite number >= "
	}
	for _, name := range names {
		text := fs.Lookup(name).Value.String()
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x > bound || atIt && x == bound) || math.IsInf(x, 0) {
			return cli.Usagef("--%s=%s: must be %s%v", name, text, word, bound)
		}
	}
	return nil
}

// checkSample returns the error of invalid flags of a sample.
func checkSample(fs *pflag.FlagSet, from, to, fraction, common float64) error {
	prefixes := cli.Needs(fs.Changed("keep-prefixes"), "with --keep-prefixes", "min-shared-blocks", "common")
	err := cmp.Or(
		wantOne(fs, "what to keep", "fraction", "sessions", "head", "from", "until"),
		wantAbove(fs, 0, true, "fraction", "sessions", "head", "from", "until"),
		(&cli.Flags{Set: fs}).Check(prefixes))
	switch {
	case err != nil:
		return err
	case fraction > 1:
		return cli.Usagef("--fraction=%v: must be 0 to 1", fraction)
	case !(common > 0 && common <= 1):
		return cli.Usagef("--common=%v: must be above 0, up to 1", common)
	case to > 0 && to <= from:
		return cli.Usagef("--until=%v: must be more than the %v of --from", to, from)
	}
	return wantAbove(fs, 1, true, "min-shared-blocks")
}
