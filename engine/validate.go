//go:build !debug

package engine

import "testing"

// validating tells whether engines are held to the contract by panics.
func validating() bool { return testing.Testing() }
