//go:build debug

package engine

// debugBuild reports whether adapters panic if an engine breaks the contract.
const debugBuild = true
