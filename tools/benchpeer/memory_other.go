//go:build !linux

package main

// toMiB converts Maxrss, which other systems give in bytes.
func toMiB(maxrss int64) float64 { return float64(maxrss) / (1 << 20) }
