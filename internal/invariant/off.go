//go:build !invariants

// Package invariant switches on internal consistency checks. Build with -tags invariants to enable the checks.
package invariant

// Enabled reports whether invariants are checked. Enabled is a constant, so that the compiler removes the checks from
// a build without the tag.
const Enabled = false
