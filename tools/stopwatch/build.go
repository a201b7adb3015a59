package stopwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Build builds a program as make does. The binary is a copy, which lies in memory
// as one that is read from a disk. What the linker wrote lies there in larger
// pieces, and a process counts all of a piece that it touches: up to 7 MiB more.
func Build(ctx context.Context, binary, path string, flags ...string) error {
	linked := binary + ".linked"
	args := append(append([]string{"build", "-o", linked}, flags...), path)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", path, err, out)
	}
	return errors.Join(copyProgram(binary, linked), os.Remove(linked))
}

// copyProgram copies in small pieces.
func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
