// Package autoscale decides how many workers a cluster should have, from what is scraped of them.
//
// A Scaler is asked at every tick. What it sees is as old as a real one's: Signals holds the latest
// scrape that has reached it. The cluster (replay/offline) starts workers and carries out the answer.
//
// Read scaler.go, then signals.go, config.go, hpa.go as an example, and governor.go, which several
// have in common.
package autoscale

// Scaler decides how many workers there should be. It is asked in order of time.
type Scaler interface {
	// Want returns the number of workers wanted; the cluster keeps it within its bounds.
	Want(s *Signals) int
}

// Fallible is a Scaler that may fail: then its number is not read, and the replay ends.
type Fallible interface {
	Scaler
	// Err returns why it could not decide, nil as long as it could.
	Err() error
}

// Explainer is a Scaler that can explain its latest decision.
type Explainer interface {
	Why() string
}

// PassReader is a Scaler that may read the latest pass of each worker, and the traffic.
type PassReader interface {
	Scaler
	SeesPasses() bool
}

// SeesPasses reports whether a scaler, that of the kind or a custom one, reads the latest pass of each worker and the
// traffic.
func SeesPasses(c *Config, other Scaler) bool {
	reader, ok := other.(PassReader)
	return c.Kind == DynamoPlanner || ok && reader.SeesPasses()
}

// reason is why a scaler wanted what it did last.
type reason struct{ why string }

// Why returns it in words.
func (r *reason) Why() string { return r.why }

// Kind is a scaler that comes with this package.
type Kind string

// Custom is the scaler of a caller in Go.
const (
	Custom    Kind = ""
	HPA       Kind = "hpa"      // Kubernetes' HorizontalPodAutoscaler
	KEDA      Kind = "keda"     // KEDA's thresholds
	ByRate    Kind = "rate"     // load by what a worker can take
	Predict   Kind = "predict"  // the load that is foreseen by that
	ByRules   Kind = "rules"    // expressions
	BySlots   Kind = "schedule" // numbers by the clock
	ByRatio   Kind = "ratio"    // a number of workers for each of the other pool
	ByProgram Kind = "process"  // a program of the user's, asked line by line
	Foreknown Kind = "perfect"  // the load to come, which no real scaler knows
	// DynamoPlanner is the planner of NVIDIA Dynamo.
	DynamoPlanner Kind = "dynamo-planner"
)

// Kinds returns all that a file may name.
func Kinds() []Kind {
	return []Kind{HPA, KEDA, ByRate, Predict, DynamoPlanner, ByRules, BySlots, ByRatio, ByProgram, Foreknown}
}

// New returns a scaler of c.Kind; nil if that is Custom, or ByProgram, which NewProcess makes,
// Foreknown, which NewPerfect does, or DynamoPlanner, which NewDynamo does.
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
