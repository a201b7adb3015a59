package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// rows is the maximum number of rows of the copied traces, so that thousands of replays take a few minutes.
const rows = 120

// inputFolders maps the folders with input files to their destinations.
func inputFolders() map[string]string {
	all := map[string]string{"cmd/replay/testdata/files": "."}
	for _, name := range []string{"testdata/traces", "testdata/policies", "testdata/faults", "testdata/classes", "testdata/scaling"} {
		all[name] = name
	}
	return all
}

// copyInputs copies the input files of command lines.
func copyInputs(root, to string) error {
	for from, at := range inputFolders() {
		dir := filepath.Join(root, from)
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(dir, path)
			target := filepath.Join(to, at, name)
			if d.IsDir() {
				return os.MkdirAll(target, 0o755)
			}
			most := 0
			if slices.Contains([]string{".jsonl", ".csv"}, filepath.Ext(path)) {
				most = rows
			}
			return copyFile(target, path, most)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordedRuns returns the command lines of recorded runs, which reports, diffs and explanations read.
func recordedRuns() [][]string {
	first := []string{"trace", "requests.jsonl", "--trace-block-size=64", "--workers=2"}
	chat := []string{"trace", "testdata/traces/chat-hour.jsonl", "--gpu=h100", "--model=llama-3.1-8b", "--workers=2", "--slo=p99:ttft=1s,itl=30ms"}
	return [][]string{
		first,
		append(slices.Clone(first), "--router=kv", "--slo=ttft=20ms"),
		append(slices.Clone(first), "--compat=dynamo-1.2"),
		append(slices.Clone(first), "--engine=sglang", "--num-gpu-blocks=4096"),
		chat,
		append(slices.Clone(chat), "--router=kv", "--speedup=4"),
		{"trace", "testdata/traces/chat-hour.jsonl", "--prefill-workers=2", "--decode-workers=2", "--speedup=3"},
		{"concurrency", "testdata/traces/short.jsonl", "--max-in-flight=4", "--workers=2"},
		{"trace", "requests.jsonl", "--trace-block-size=64", "--workers=2", "--faults=testdata/faults/worker-dies.yaml"},
	}
}
