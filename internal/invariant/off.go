//go:build !invariants

// Package invariant switches the checks that hold our own code to account.
// Build with -tags invariants to have them.
package invariant

// Enabled reports whether invariants are checked. It is a constant, so that the
// checks vanish from a plain build.
const Enabled = false
