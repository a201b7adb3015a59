//go:build !linux

package main

import "os"

// peakMemory is unknown where the system does not report it in the same unit.
func peakMemory(*os.ProcessState) string { return "?" }
