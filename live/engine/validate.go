//go:build !debug

package engine

import (
	"testing"
	"time"
)

// isValidating reports whether engines are held to the contract by panics.
func isValidating() bool { return testing.Testing() }

// defaultShutdown is DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT without one.
const defaultShutdown = 30 * time.Second
