// Command optables writes the compact files of measured operator times in scheduler/optables/systems. The command
// reads a wheel of aiconfigurator-core, packed or unpacked.
//
//	go run ./tools/optables -from aiconfigurator_core-0.12.0.whl -faults faults.tsv
//
// Equal wheels give equal bytes. provenance.json counts the rows that were dropped or changed. Rows that cannot be
// true are listed in the file of -faults: file, shape, reason, and milliseconds before and after.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/optables/wheel"
)

func main() {
	from := flag.String("from", "", "the wheel, or the directory it was unpacked to")
	out := flag.String("out", "scheduler/optables/systems", "directory of the compact files")
	list := flag.String("faults", "", "file for the rows that cannot be true")
	extracts := flag.String("extracts", "", "directory for the parts that tests look up; nothing else is written")
	flag.Parse()
	err := errors.New("-from is required")
	switch {
	case *from != "" && *extracts != "":
		err = writeExtracts(*from, *extracts)
	case *from != "":
		err = run(*from, *out, *list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "optables:", err)
		os.Exit(1)
	}
}

// run writes the files of all GPUs and their provenance.
func run(from, out, list string) error {
	known := map[string]*optables.Tables{}
	older := func(gpu string) (*optables.Tables, error) { return known[gpu], nil }
	provenance := optables.Origin{
		Source: "aiconfigurator-core", Release: wheel.Release(from), License: "Apache-2.0",
		Notice: "contains performance data of NVIDIA aiconfigurator " + wheel.Release(from) + ", Apache-2.0, modified (merged, rounded)",
	}
	var faults bytes.Buffer
	for _, gpu := range optables.Names() {
		t, report, err := optables.ReadGuarded(from, gpu, older)
		if err != nil {
			return fmt.Errorf("%s: %w", gpu, err)
		}
		known[gpu] = t
		file, err := t.Encode(known[optables.BaseOf(gpu)])
		if err != nil {
			return fmt.Errorf("%s: %w", gpu, err)
		}
		if err := os.WriteFile(filepath.Join(out, gpu+optables.Extension), file, 0o644); err != nil {
			return err
		}
		report.Bytes = len(file)
		provenance.GPUs = append(provenance.GPUs, *report)
		for _, f := range report.Faults {
			fmt.Fprintf(&faults, "%s\t%s\t%s\t%.6g\t%.6g\n", f.File, f.Shape, f.Reason, f.Was, f.Is)
		}
		fmt.Printf("%-12s %7d rows read, %7d kept, %7d bytes, %6d faults\n", gpu, report.Read, report.Kept, len(file), len(report.Faults))
	}
	if err := writeJSON(filepath.Join(out, "provenance.json"), &provenance); err != nil {
		return err
	}
	if list == "" {
		return nil
	}
	return os.WriteFile(list, faults.Bytes(), 0o644)
}

// writeJSON writes a value as indented JSON.
func writeJSON(name string, value any) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
