// Package labels finds labels of charts that overlap or are cut. Tests run its scripts in pages in a real browser.
package labels

import _ "embed" // the scripts

// Note is a script that runs before those of a page: it notes the box of each text that is drawn on a canvas.
//
//go:embed note.js
var Note string

// Find is a function of a window that ran Note. It returns the number of labels, and the labels that overlap or leave their chart.
//
//go:embed find.js
var Find string
