//go:build !debug

package engine

// debugBuild reports that engines are held to the contract by panics.
const debugBuild = false
