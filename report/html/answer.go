package html

import (
	"fmt"
	"math"
	"strconv"
)

// Answer is the top of a page: the result in words and, for a search, charts of the distance of each cluster from the
// limits.
type Answer struct {
	Number  string    `json:"number"`  // the answer as one number with its unit; "": there is none
	Under   string    `json:"under"`   // composition of the number
	Verdict string    `json:"verdict"` // one sentence
	Good    *bool     `json:"good"`    // whether the result meets the requirement; nil: there is none
	Chances []Chance  `json:"chances"` // how often clusters meet the objectives
	Target  float64   `json:"target"`  // required share of resamples
	Lists   []List    `json:"lists"`   // further facts about the result
	Facts   []Facts   `json:"facts"`   // inputs and assumptions
	Grids   []Grid    `json:"grids"`   // small tables
	Limits  []Limit   `json:"limits"`  // one chart each
	Across  string    `json:"across"`  // name of the horizontal axis of the charts, which orders clusters
	Cluster []Cluster `json:"clusters"`
}

// Chance is the share of resamples in which a cluster meets the objectives.
type Chance struct {
	Name   string  `json:"name"`
	Group  string  `json:"group"`
	Across float64 `json:"across"`
	GPUs   int     `json:"gpus"`
	Share  float64 `json:"share"`
	Chosen bool    `json:"chosen"`
}

// List is a heading with sentences.
type List struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

// Facts are names with values, below a heading.
type Facts struct {
	Title string      `json:"title"`
	Rows  [][2]string `json:"rows"`
}

// Grid is a table without sorting. A cell that begins with ✓ or ✗ is coloured.
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

// Cluster is a cluster that was replayed.
type Cluster struct {
	Name   string  `json:"name"`
	Group  string  `json:"group"` // its settings, where there are several to choose from
	Across float64 `json:"across"`
	GPUs   int     `json:"gpus"`
	// PerHour is the cost of the cluster for one hour; 0 without a price.
	PerHour float64   `json:"per_hour"`
	Values  []float64 `json:"values"` // of the objectives
	Low     []float64 `json:"low"`    // lower end of the range over resamples; empty: none
	High    []float64 `json:"high"`
	Missed  string    `json:"missed"` // "" when it meets all
	Chosen  string    `json:"chosen"` // why it is pointed out; "" for most
}

// FormatMS formats a duration in ms as the scripts of pages do: 950 ms, 14.4 s, 2 min 42 s or 1 h 5 min.
func FormatMS(v float64) string {
	two := func(big string, per float64, small string) string {
		all := math.Round(v / per)
		text := fmt.Sprintf("%.0f %s", math.Floor(all/60), big)
		if left := math.Mod(all, 60); left > 0 {
			text += fmt.Sprintf(" %.0f %s", left, small)
		}
		return text
	}
	digits := func(v float64, n int) string {
		return strconv.FormatFloat(math.Round(v*math.Pow10(n))/math.Pow10(n), 'f', -1, 64)
	}
	switch {
	case v < 0:
		return "−" + FormatMS(-v)
	case v >= 3.57e6:
		return two("h", 6e4, "min")
	case v >= 59950:
		return two("min", 1000, "s")
	case v >= 999.5:
		return digits(v/1000, 2) + " s"
	case v >= 100:
		return digits(v, 0) + " ms"
	case v >= 1:
		return digits(v, 2) + " ms"
	default:
		return digits(v, 3) + " ms"
	}
}

// FormatChange formats a change in ms with its sign.
func FormatChange(v float64) string {
	if v > 0 {
		return "+" + FormatMS(v)
	}
	return FormatMS(v)
}
