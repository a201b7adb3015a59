package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// requirements is the file with the Python packages of Sphinx and their checksums.
const requirements = "tools/site/requirements.txt"

// installSphinx installs the requirements in a virtual environment in work, unless they are installed already.
func installSphinx(root, work, python string) error {
	wanted, err := os.ReadFile(filepath.Join(root, requirements))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(append(wanted, python...))
	stamp, venv := filepath.Join(work, "venv", "installed"), filepath.Join(work, "venv")
	if is, err := os.ReadFile(stamp); err == nil && string(is) == hex.EncodeToString(sum[:]) {
		return nil
	}
	if err := run(root, python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"); err != nil {
		return fmt.Errorf("-python %s: expected Python 3.11 or later: %w", python, err)
	}
	if err := os.RemoveAll(venv); err != nil {
		return err
	}
	if err := run(".", python, "-m", "venv", venv); err != nil {
		return err
	}
	if err := run(".", findProgram(venv, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
		"--only-binary", ":all:", "-r", filepath.Join(root, requirements)); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(hex.EncodeToString(sum[:])), 0o644)
}

// findProgram returns the path of a program of a virtual environment.
func findProgram(venv, name string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(venv, "Scripts", name+".exe")
	}
	return filepath.Join(venv, "bin", name)
}

// runSphinx renders the pages of source in the folder out. Every warning is an error, such as a page that is missing
// in the navigation.
func runSphinx(work, source, out string) error {
	fresh := filepath.Join(work, "fresh")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := run(".", findProgram(filepath.Join(work, "venv"), "python"), "-m", "sphinx", "--builder", "html", "--quiet", "--fail-on-warning", "--keep-going",
		"--fresh-env", "--write-all", "--jobs", "auto", "--doctree-dir", filepath.Join(work, "doctrees"), source, fresh); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(out)), 0o755); err != nil {
		return err
	}
	return os.Rename(fresh, out)
}

// run runs a program in a folder. An error contains the program's output.
func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}
