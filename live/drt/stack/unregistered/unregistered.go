// Package unregistered keeps the libraries that are initialized between it and
// Restore from registering metrics with Prometheus's default registry.
//
// The packages of an etcd server register some two hundred metrics as soon as
// a program starts, each by way of a goroutine of its own, which takes longer
// than all else that happens before main, and nobody here reads them. Packages
// are initialized in the order of their paths as far as they do not import one
// another (The Go Programming Language Specification, Package initialization):
// this one comes before those of etcd.
package unregistered

import "github.com/prometheus/client_golang/prometheus"

var registerer = prometheus.DefaultRegisterer

func init() { prometheus.DefaultRegisterer = nowhere{} }

// Restore gives the default registry back to whoever comes from now on.
func Restore() { prometheus.DefaultRegisterer = registerer }

// nowhere registers nothing.
type nowhere struct{}

func (nowhere) Register(prometheus.Collector) error  { return nil }
func (nowhere) MustRegister(...prometheus.Collector) {}
func (nowhere) Unregister(prometheus.Collector) bool { return false }
