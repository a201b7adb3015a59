//go:build !linux

package main

import "os"

// peakMemory returns "?", since the unit of the system is unknown.
func peakMemory(*os.ProcessState) string { return "?" }
