//go:build debug

package engine

import "time"

// validating reports whether engines are held to the contract by panics.
func isValidating() bool { return true }

// defaultShutdown is DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT without one.
const defaultShutdown = 5 * time.Second
