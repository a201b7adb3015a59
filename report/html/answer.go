package html

// Answer is the result of a search: in words, and in charts of how near each cluster came to the limits.
type Answer struct {
	Number  string    `json:"number"`  // the answer as one number with its unit; "": there is none
	Under   string    `json:"under"`   // what the number consists of
	Verdict string    `json:"verdict"` // one sentence
	Good    bool      `json:"good"`    // it holds as often as was wanted
	Chances []Chance  `json:"chances"` // how often clusters meet the objectives
	Target  float64   `json:"target"`  // share of resamples that is wanted
	Lists   []List    `json:"lists"`   // further facts about it
	Facts   []Facts   `json:"facts"`   // what was asked, and what the answer rests on
	Grids   []Grid    `json:"grids"`   // small tables
	Limits  []Limit   `json:"limits"`  // a chart each
	Across  string    `json:"across"`  // what clusters are ordered by, in the charts
	Cluster []Cluster `json:"clusters"`
}

// Chance is in which share of resamples a cluster meets the objectives.
type Chance struct {
	Name   string  `json:"name"`
	Group  string  `json:"group"`
	Across float64 `json:"across"`
	GPUs   int     `json:"gpus"`
	Share  float64 `json:"share"`
	Chosen bool    `json:"chosen"`
}

// List is sentences under a heading.
type List struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

// Facts are names and what they stand for, under a heading.
type Facts struct {
	Title string      `json:"title"`
	Rows  [][2]string `json:"rows"`
}

// Grid is a table to be read, not sorted. A cell that begins with ✓ or ✗ is coloured.
type Grid struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

// Limit is an objective.
type Limit struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"` // ms, or share
	Limit float64 `json:"limit"`
}

// Cluster is one that was measured.
type Cluster struct {
	Name   string  `json:"name"`
	Group  string  `json:"group"` // its settings, where there are several to choose from
	Across float64 `json:"across"`
	GPUs   int     `json:"gpus"`
	// PerHour is what it costs; 0 without a price.
	PerHour float64   `json:"per_hour"`
	Values  []float64 `json:"values"` // of the objectives
	Low     []float64 `json:"low"`    // the range over resamples; empty: none
	High    []float64 `json:"high"`
	Missed  string    `json:"missed"` // "" when it meets all
	Chosen  string    `json:"chosen"` // why it is pointed out; "" for most
}
