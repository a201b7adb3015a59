// Package labels finds overlapping or clipped labels of charts. Tests run its scripts in a browser.
package labels

import _ "embed" // for the scripts

// Note is a script that must run before the scripts of a page. Note records the bounding box of each text that is
// drawn on a canvas.
//
//go:embed note.js
var Note string

// Find is a JavaScript function for a window in which Note ran. Find returns the number of labels, and a list of
// overlapping or clipped labels.
//
//go:embed find.js
var Find string
