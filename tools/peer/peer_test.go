package peer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without a suitable Python, the reference is reported as missing and not as broken.
func TestWithoutPython(t *testing.T) {
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("skipped: there is no /bin/bash, which the script requires")
	}
	script, err := filepath.Abs("run")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink("/bin/bash", filepath.Join(bin, "bash")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"python3", "python3.10", "python3.11", "python3.12", "python3.13"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("PEER_PYTHON", "")
	t.Setenv("REPLAY_PEER_HOME", t.TempDir())
	if err := Install(t.Context(), script, "1.2.1"); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "3.10 to 3.13") || IsInstalled("1.2.1") {
		t.Errorf("%v, want that a Python is missing", err)
	}
	if err := Install(t.Context(), filepath.Join(bin, "absent"), "1.2.1"); !errors.Is(err, ErrMissing) {
		t.Errorf("%v, want that the script is missing", err)
	}
}
