// Package passes is every forward pass of a run, and where the passes of two
// runs part.
//
// Read passes.go (what is kept), log.go (how it is gathered and written), then
// parting.go.
package passes

// FileName is the name of the passes in a run directory.
const FileName = "passes.parquet"

// Pass is a forward pass of a worker, or a run of passes that are all alike but
// for their time. Times are in ms; requests are named by their id.
type Pass struct {
	Decode bool // on a worker of the decode stage
	Worker int32
	Start  float64
	End    float64 // of the last pass of the run
	Gap    float64 // how long each of them takes
	Count  int32   // in the run, at least 1
	Prompt int32   // computed in each
	Tokens int32   // gained in each

	// After the last pass.
	Running int32
	Waiting int32
	Held    int32
	Cached  int32

	Admitted []int32 // requests that got a place, in order
	Computed []int32 // requests whose prompt was computed, in order
	Chunks   []int32 // of each of those
	Lost     []int32 // requests that lost their place, in order
}
