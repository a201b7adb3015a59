//go:build debug

package engine

// validating tells whether engines are held to the contract by panics.
func validating() bool { return true }
