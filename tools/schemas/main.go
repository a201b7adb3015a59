// Command schemas writes the JSON Schemas that the YAML files of examples name in their first lines.
//
//	go generate ./tools/schemas
//
// The tests of this command compare the YAML files of the repository with the schemas, and the schemas with the
// program.
package main

//go:generate go run -C ../.. ./tools/schemas

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/replay-llm/replay/tools/stopwatch"
)

// dir is the directory of the schemas.
const dir = "examples/schemas"

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	temp, err := os.MkdirTemp("", "schemas")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	program := filepath.Join(temp, "replay")
	if err := stopwatch.Build(ctx, program, "./cmd/replay"); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"autoscaler", "grid", "policy"} {
		text, err := printSchema(ctx, program, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// printSchema returns the output of replay schema for a kind of file.
func printSchema(ctx context.Context, program, name string) ([]byte, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "schema", name)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("replay schema %s: %w: %s", name, err, complaint.Bytes())
	}
	return out.Bytes(), nil
}
