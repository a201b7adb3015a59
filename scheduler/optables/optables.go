// Package optables contains the measured operator times of GPUs: the times of a matrix product, an attention, a layer
// of experts or a collective on one GPU. The tables are derived from NVIDIA's aiconfigurator-core. tools/optables
// merges the engines, rounds to steps of 0.2 %, and writes the directory systems.
//
// A Tables is for one GPU model and is read-only, so that any number of goroutines may look up times. Times are in
// ms, for one call of an operator of one layer on one GPU. A lookup always has a result: Time.Source distinguishes
// measurements from estimates.
//
// Read optables.go and sheet.go, then table.go and grid.go. The operators are in gemm.go, attention.go, latent.go,
// experts.go and collectives.go, and the compact file is in files.go. For the tables of a wheel, read read.go,
// layout.go, guard.go and build.go.
package optables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Engine is an engine with measured kernels and collectives.
type Engine uint8

const (
	VLLM Engine = iota
	SGLang
	TRTLLM
)

// engineNames returns the names of the engines in the tables.
func engineNames() []string { return []string{"vllm", "sglang", "trtllm"} }

// String returns the name of the engine in the tables.
func (e Engine) String() string {
	if names := engineNames(); int(e) < len(names) {
		return names[e]
	}
	return "unknown"
}

// Source is how a time was determined.
type Source uint8

const (
	Measured     Source = iota // a measured point, or interpolated linearly between points of one curve
	Interpolated               // computed from the utilisation at similar shapes
	Filled                     // computed from the data sheet, with the utilisation of the nearest shape if there is one
)

// String returns the source in one word.
func (s Source) String() string {
	switch s {
	case Measured:
		return "measured"
	case Interpolated:
		return "interpolated"
	}
	return "filled"
}

// Time is the duration of an operator and its source.
type Time struct {
	Ms     float64
	Source Source
}

// Tables are the measured operator times of one GPU system.
type Tables struct {
	header  header
	tables  [tableCount]*table
	latency []float64 // latency in ms by code
	donor   *Sheet    // data sheet of the measured GPU, if it is not this GPU
}

// Name returns the GPU's name, for example h100.
func (t *Tables) Name() string { return t.header.Name }

// Sheet returns the GPU's data sheet.
func (t *Tables) Sheet() *Sheet { return &t.header.Sheet }

// Releases returns the measured engine releases, by engine.
func (t *Tables) Releases() map[string]string { return t.header.Releases }

// Rows returns the number of measurements.
func (t *Tables) Rows() int {
	n := 0
	for i := range t.tables {
		n += len(t.table(i).codes)
	}
	return n
}

// system is a GPU with tables.
type system struct {
	gpu, name string   // names in this package and in the wheel
	older     []string // older GPUs, which are not faster in any operator
	donor     string   // the GPU with the utilisation to use if this one was not measured
}

// listSystems returns the GPUs, older ones first.
func listSystems() []system {
	return []system{
		{gpu: "a100", name: "a100_sxm"},
		{gpu: "a30", name: "a30", donor: "a100"},
		{gpu: "l40s", name: "l40s"},
		{gpu: "l4", name: "l4", donor: "l40s"},
		{gpu: "h100", name: "h100_sxm", older: []string{"a100"}},
		{gpu: "h100-pcie", name: "h100_pcie", donor: "h100"},
		{gpu: "h200", name: "h200_sxm", older: []string{"h100"}},
		{gpu: "rtxpro6000", name: "rtx_pro_6000_server", older: []string{"l40s"}},
		{gpu: "b200", name: "b200_sxm", older: []string{"h200"}},
		{gpu: "gb200", name: "gb200", older: []string{"b200"}},
		{gpu: "b300", name: "b300_sxm", older: []string{"b200"}},
		{gpu: "gb300", name: "gb300", older: []string{"gb200"}},
	}
}

// findSystem returns the system of a GPU.
func findSystem(gpu string) (system, error) {
	all := listSystems()
	i := slices.IndexFunc(all, func(s system) bool { return s.gpu == gpu || s.name == gpu })
	if i < 0 {
		return system{}, excerpt.Errorf("no operator times of %q: must be one of %s", gpu, strings.Join(Names(), ", "))
	}
	return all[i], nil
}

// Names returns the GPUs with tables, older GPUs first.
func Names() []string {
	var names []string
	for _, s := range listSystems() {
		names = append(names, s.gpu)
	}
	return names
}

// Missing reports whether a GPU has tables, but this program does not include them.
func Missing(gpu string) bool {
	s, err := findSystem(gpu)
	if err != nil {
		return false
	}
	_, err = files.Open("systems/" + s.gpu + Extension)
	return err != nil
}

// Load returns the built-in tables of a GPU.
func Load(gpu string) (*Tables, error) {
	s, err := findSystem(gpu)
	if err != nil {
		return nil, err
	}
	text, err := files.ReadFile("systems/" + s.gpu + Extension)
	if err != nil {
		return nil, fmt.Errorf("operator times of %s are not in this program: replay ui has them", gpu)
	}
	t, err := openLazily(text)
	if err != nil {
		return nil, fmt.Errorf("operator times of %s: %w", gpu, err)
	}
	return t.borrow(s)
}

// borrow returns t, or tables with the measurements of a similar GPU if t has none.
func (t *Tables) borrow(s system) (*Tables, error) {
	if s.donor == "" || t.Rows() > 0 {
		return t, nil
	}
	donor, err := Load(s.donor)
	if err != nil {
		return nil, err
	}
	sheet := donor.header.Sheet
	t.tables, t.latency, t.donor = donor.tables, donor.latency, &sheet
	return t, nil
}

// Donor reports whether the times are from another GPU, scaled by the data sheets.
func (t *Tables) Donor() bool { return t.donor != nil }
