package main

// toMiB converts Maxrss, which Linux gives in KiB.
func toMiB(maxrss int64) float64 { return float64(maxrss) / 1024 }
