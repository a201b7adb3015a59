package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/benchpeer/tile"
)

// tracePath returns the file with the given number of requests, made when it is not
// there yet; requests is 0 for the trace as it is.
func (b *bench) tracePath(s row.Source, requests int) (string, error) {
	if s == row.Synthetic {
		return "", nil
	}
	path, err := filepath.Abs(s.Path())
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil || requests == 0 {
		return path, err
	}
	long := filepath.Join(b.place.dir, fmt.Sprintf("%v-%d.jsonl", s, requests))
	if _, err := os.Stat(long); err == nil {
		return long, nil
	}
	return long, tileFile(path, long, requests)
}

// runTile runs the command that makes long traces.
func runTile(args []string, stderr io.Writer) int {
	fs := flag.NewFlagSet("benchpeer tile", flag.ContinueOnError)
	fs.SetOutput(stderr)
	requests := fs.Int("n", 0, "requests of the new trace")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() != 2 || *requests < 1 {
		fmt.Fprintln(stderr, "benchpeer tile: want -n of at least 1, a trace and a file to write")
		return 2
	}
	if err := tileFile(fs.Arg(0), fs.Arg(1), *requests); err != nil {
		fmt.Fprintf(stderr, "benchpeer tile: %v\n", err)
		return 1
	}
	return 0
}

func tileFile(from, to string, requests int) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	t, err := tile.Read(in, from)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(t.Write(out, requests), out.Close())
}
