// Package passes is every forward pass of a run, and where the passes of two
// runs part.
//
// Read passes.go (what is kept), log.go (how it is gathered and written), then
// parting.go.
package passes

// FileName is the name of the passes in a run directory.
const FileName = "passes.parquet"

// Pass is a forward pass of a worker, or a run of passes that are all alike but
// for their time. Times are in ms; requests are named by their id. The tags name the
// columns of the file.
type Pass struct {
	Decode bool    `parquet:"decode_stage"` // on a worker of the decode stage
	Worker int32   `parquet:"worker"`
	Start  float64 `parquet:"start_ms"`
	End    float64 `parquet:"end_ms"`        // of the last pass of the run
	Gap    float64 `parquet:"each_ms"`       // how long each of them takes
	Count  int32   `parquet:"passes"`        // in the run, at least 1
	Prompt int32   `parquet:"prompt_tokens"` // computed in each
	Tokens int32   `parquet:"tokens"`        // gained in each

	// After the last pass.
	Running int32 `parquet:"running"`
	Waiting int32 `parquet:"waiting"`
	Held    int32 `parquet:"held_blocks"`
	Cached  int32 `parquet:"cached_blocks"`

	Admitted []int32 `parquet:"admitted"`        // requests that got a place, in order
	Computed []int32 `parquet:"computed"`        // requests whose prompt was computed, in order
	Chunks   []int32 `parquet:"computed_tokens"` // of each of those
	Lost     []int32 `parquet:"preempted"`       // requests that lost their place, in order
}
