package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	plain, missing := filepath.Join(dir, "plain"), filepath.Join(dir, "missing")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, stat := range map[string]func(string) (fs.FileInfo, error){"Stat": Stat, "Lstat": Lstat} {
		if info, err := stat(plain); err != nil || info.Size() != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		_, want := os.Open(missing)
		if _, err := stat(missing); err == nil || err.Error() != want.Error() || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}
