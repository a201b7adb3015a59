// Package replay holds what one replay depends on, and runs it.
//
// A Spec is everything a run depends on: Run opens its workload, builds the
// cluster and moves the clock until every request is answered; Steps opens a run
// that advances as far as its caller asks; RunLive takes the real clock. Streams
// are what a run gets from its caller besides: an engine, a router policy, an observer or a scaler of the
// caller's own.
//
// # Stability
//
// This package is the door for programs, and everything in it is stable by the rules of Semantic Versioning: from
// version 1.0.0, programs that use it continue to build within a major version, and so do programs that use the names
// in docs/api.md. All else in the module is not: the other names of these packages, and the other packages. No version
// has been released so far.
//
// Structures and harness.Observer grow, so name the fields in literals, do not compare
// structures, and embed harness.NoObserver. Numbers that a replay gives are not part of the promise:
// they move when a rule is corrected, and CHANGELOG.md lists it.
//
// # Reading order
//
// Read spec.go, which has the names of settings in run directories, too,
// then open.go, run.go and live.go. Package engines has the topology of a cluster,
// engineargs the arguments of an engine, harness, offline and online the clocks,
// collector the report.
package replay
