// Package nearest finds the name that somebody meant.
package nearest

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Name returns the name that is nearest to the one that was typed, whatever the case
// of its letters: of two as near the one that goes on where typing stopped. It returns
// "" when none is near: when more than a third of the letters differ.
func Name(typed string, names []string) string {
	typed = strings.ToLower(typed)
	best, least := "", 2*(1+max(len(typed)/3, 1))
	for _, name := range names {
		d := 2 * levenshtein.ComputeDistance(typed, strings.ToLower(name))
		if strings.HasPrefix(strings.ToLower(name), typed) {
			d--
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}
