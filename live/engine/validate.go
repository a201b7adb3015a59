//go:build !debug

package engine

import (
	"testing"
	"time"
)

// isValidating reports whether a chunk after the terminal is a panic: in tests and
// in builds with the tag debug.
func isValidating() bool { return testing.Testing() }

// defaultShutdown is DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT without one.
const defaultShutdown = 30 * time.Second
