package main

import (
	"slices"
	"strings"
)

// stable is a package with a stable API.
type stable struct {
	path  string   // path below the module
	names []string // stable names; none: all exported names
}

// listPackages returns the stable packages. docs/api.md has a row for each stable package.
func listPackages() []stable {
	return []stable{
		{path: "replay"},
		{path: "replay/autoscale", names: []string{"Config", "Kind", "Custom", "Default", "Scaler", "Signals", "Target", "Metric", "Ladder", "Law"}},
		{path: "replay/collector", names: []string{"Report", "ReadJSON", "Distribution", "Record", "Window"}},
		{path: "replay/engineargs", names: []string{"Args", "Default"}},
		{path: "replay/engines", names: []string{"Topology", "Pool", "Kind", "ScaleEvent", "Change", "Faults", "PD", "KeepSize", "OnePool", "TwoPools", "JoinPools", "Mix", "OversizeError"}},
		{path: "replay/harness", names: []string{"Result", "Observer", "NoObserver", "SaveCaches"}},
		{path: "loadgen", names: []string{"Synthetic", "Workload", "Mode", "Trace", "Concurrency", "Class"}},
		{path: "router", names: []string{"Policy", "Needs", "Candidates", "Choice", "None", "Admission", "Placement"}},
		{path: "router/policy", names: []string{"Options", "Name", "Choice", "Configured", "Given", "RoundRobin", "KV"}},
		{path: "scheduler", names: []string{"Core", "Pass", "Admission", "Mark", "Role"}},
		{path: "scheduler/custom", names: []string{"Engine", "Options", "Plan", "Request", "FirstCome", "PlanError"}},
		{path: "sim"},
	}
}

// keep returns the changes in the output of apidiff that concern stable names.
func (p *stable) keep(text string) []string {
	var kept []string
	for line := range strings.Lines(text) {
		change, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			continue
		}
		if len(p.names) == 0 || slices.Contains(p.names, nameOf(change)) {
			kept = append(kept, change)
		}
	}
	return kept
}

// nameOf returns the package-level name that a change concerns, such as Report in "(*Report).Write: removed" and in
// "Report.TTFT: changed from ...".
func nameOf(change string) string {
	change = strings.TrimLeft(change, "(*")
	end := strings.IndexFunc(change, func(r rune) bool { return strings.ContainsRune(".:)[ ,", r) })
	if end < 0 {
		return change
	}
	return change[:end]
}
