// Package peer installs the published reference, which other tools run.
package peer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Script is the path of the script that installs and runs the reference, relative to the root of the checkout.
const Script = "tools/peer/run"

// noPython is the script's exit code if the machine has no suitable Python.
const noPython = 3

// ErrMissing reports that the machine cannot install the reference.
var ErrMissing = errors.New("there is no reference")

// Install installs a release of the reference with the given script, if the release is not installed yet. The error
// is ErrMissing if the script or a suitable Python is missing.
func Install(ctx context.Context, script, version string) error {
	if _, err := os.Stat(script); err != nil {
		return fmt.Errorf("%w at %s", ErrMissing, script)
	}
	out, err := exec.CommandContext(ctx, script, version, "--help").CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == noPython {
		return fmt.Errorf("%w: %s", ErrMissing, bytes.TrimSpace(out))
	}
	if err != nil {
		return fmt.Errorf("%s %s --help: %w\n%s", script, version, err, out)
	}
	return nil
}

// Python returns the Python interpreter in the environment of a release.
func Python(version string) string { return filepath.Join(findHome(), version, "bin", "python") }

// IsInstalled reports whether a release is installed.
func IsInstalled(version string) bool {
	_, err := os.Stat(filepath.Join(findHome(), version, "ready"))
	return err == nil
}

// findHome returns the same folder of environments as the script.
func findHome() string {
	cache := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache"))
	return cmp.Or(os.Getenv("REPLAY_PEER_HOME"), filepath.Join(cache, "replay-peer"))
}
