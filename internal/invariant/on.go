//go:build invariants

package invariant

// Enabled says whether invariants are checked.
const Enabled = true
