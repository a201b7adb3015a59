// Package replay has the specification of a replay, and runs it.
//
// A Spec has all settings of a run. Run opens its workload, builds the cluster and advances the clock until every
// request is answered. Steps opens a run that the caller advances step by step. RunLive uses the real clock. Streams
// are the inputs and callbacks of the caller: for example an engine, an observer or a scaler.
//
// # Stability
//
// Package replay is the API for programs, and all its names are stable by the rules of Semantic Versioning. From
// version 1.0.0 on, programs that use it or the names in docs/api.md continue to build within a major version. All
// other names and packages of the module are not stable. No version has been released so far.
//
// Structures and harness.Observer may get new fields and methods. Name the fields in literals, do not compare
// structures, and embed harness.NoObserver. Results of a replay are not stable: they change when a rule is corrected,
// and CHANGELOG.md lists the correction.
//
// # Reading order
//
// Read spec.go, which also has the names of settings in run directories, then open.go, run.go and live.go. Package
// engines has the topology of a cluster, engineargs the arguments of an engine, harness, offline and online the
// clocks, collector the report.
package replay
