//go:build !debug

package engine

import (
	"testing"
	"time"
)

// validating tells whether engines are held to the contract by panics.
func validating() bool { return testing.Testing() }

// defaultShutdown is DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT without one.
const defaultShutdown = 30 * time.Second
