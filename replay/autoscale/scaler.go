// Package autoscale decides how many workers a cluster should have, from scraped metrics.
//
// A Scaler decides at every tick. A Scaler's signals are as old as in a real cluster: Signals has the latest scrape
// that the scaler knows. The cluster (replay/offline) starts and removes workers.
//
// Read scaler.go, then signals.go, config.go, hpa.go as an example, and governor.go, which several scalers share.
package autoscale

// Scaler decides the number of workers. Calls are in order of time.
type Scaler interface {
	// Want returns the requested number of workers. The cluster limits the number to the bounds of the pool.
	Want(s *Signals) int
}

// Fallible is a Scaler that may fail. After a failure, the requested number is ignored and the replay ends.
type Fallible interface {
	Scaler
	// Err returns the reason of the failure, nil if there was none.
	Err() error
}

// Explainer is a Scaler that can explain its latest decision.
type Explainer interface {
	Why() string
}

// PassReader is a Scaler that may read the latest pass of each worker and the traffic.
type PassReader interface {
	Scaler
	SeesPasses() bool
}

// SeesPasses reports whether a scaler reads the latest pass of each worker and the traffic. The scaler is that of c,
// or other if other is not nil.
func SeesPasses(c *Config, other Scaler) bool {
	reader, ok := other.(PassReader)
	return c.Kind == DynamoPlanner || ok && reader.SeesPasses()
}

// reason is the reason of a scaler's latest decision.
type reason struct{ why string }

// Why returns the reason as a text.
func (r *reason) Why() string { return r.why }

// Kind is the kind of a built-in scaler.
type Kind string

// Custom is a scaler of the caller in Go.
const (
	Custom    Kind = ""
	HPA       Kind = "hpa"      // Kubernetes' HorizontalPodAutoscaler
	KEDA      Kind = "keda"     // KEDA's thresholds
	ByRate    Kind = "rate"     // load divided by the capacity of a worker
	Predict   Kind = "predict"  // predicted load divided by the capacity of a worker
	ByRules   Kind = "rules"    // expressions
	BySlots   Kind = "schedule" // numbers of workers by time
	ByRatio   Kind = "ratio"    // a number of workers per worker of the other pool
	ByProgram Kind = "process"  // a program of the user, which answers line by line
	Foreknown Kind = "perfect"  // the future load, which no real scaler knows
	// DynamoPlanner is the planner of NVIDIA Dynamo.
	DynamoPlanner Kind = "dynamo-planner"
)

// Kinds returns all kinds that a file may contain.
func Kinds() []Kind {
	return []Kind{HPA, KEDA, ByRate, Predict, DynamoPlanner, ByRules, BySlots, ByRatio, ByProgram, Foreknown}
}

// New returns a scaler of c.Kind. New returns nil for Custom, ByProgram (see NewProcess), Foreknown (see NewPerfect)
// and DynamoPlanner (see NewDynamo).
func New(c *Config) Scaler {
	switch c.Kind {
	case HPA:
		return &hpa{governor: governor{c: c}}
	case KEDA:
		return &keda{governor: governor{c: c}}
	case ByRate:
		return &rate{governor: governor{c: c}}
	case Predict:
		return &predict{governor: governor{c: c}}
	case ByRules:
		return newRules(c)
	case BySlots:
		return &schedule{c: c}
	case ByRatio:
		return &ratio{c: c}
	}
	return nil
}
