// Package autoscale decides how many workers a cluster should have, from what is scraped of them.
//
// A Scaler is asked at every tick. What it sees is as old as a real one's: Signals holds the latest
// scrape that has reached it. What a worker needs to start, and what becomes of the answer, is the
// cluster's affair (replay/offline).
//
// Read scaler.go, then signals.go, config.go, and hpa.go as an example.
package autoscale

// Scaler decides how many workers there should be. It is asked in order of time.
type Scaler interface {
	// Want returns the number of workers wanted; the cluster keeps it within its bounds.
	Want(s *Signals) int
}

// Kind is a scaler that comes with this package.
type Kind string

// Given is the scaler of a caller in Go.
const (
	Given Kind = ""
	HPA   Kind = "hpa" // Kubernetes' HorizontalPodAutoscaler
)

// Kinds returns all that a file may name.
func Kinds() []Kind { return []Kind{HPA} }

// New returns a scaler of c.Kind; nil where that is Given.
func New(c *Config) Scaler {
	switch c.Kind {
	case HPA:
		return &hpa{c: c}
	}
	return nil
}
