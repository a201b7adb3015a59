// Package nearest suggests a known name for a misspelled name.
package nearest

import "strings"

// longest is the maximum number of bytes of compared names. The time of a comparison grows with the cube of the
// length.
const longest = 100

// Ask returns ", did you mean NAME?" with the known name nearest to typed, or "" if no name is near.
func Ask(typed string, names []string) string {
	if near := Name(typed, names); near != "" {
		return ", did you mean " + near + "?"
	}
	return ""
}

// Name returns the known name nearest to typed, ignoring case. Of two equally near names, a name that begins with
// typed is preferred. Name returns "" if more than a third of the letters differ. A transposition counts as one
// difference. Names of more than longest bytes are ignored.
func Name(typed string, names []string) string {
	if len(typed) > longest {
		return ""
	}
	typed = strings.ToLower(typed)
	best, least := "", 2*(1+max(len(typed)/3, 1))
	for _, name := range names {
		if far := max(len(typed)-len(name), len(name)-len(typed)); len(name) > longest || 2*far-1 >= least {
			continue
		}
		d := 2 * countChanges(typed, strings.ToLower(name))
		if strings.HasPrefix(strings.ToLower(name), typed) {
			d--
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// countChanges returns the number of letters that differ. Two swapped neighbours count as one difference.
func countChanges(typed, name string) int {
	least := countEdits(typed, name)
	for i := 1; i < len(typed); i++ {
		swapped := typed[:i-1] + typed[i:i+1] + typed[i-1:i] + typed[i+1:]
		least = min(least, 1+countEdits(swapped, name))
	}
	return least
}

// countEdits returns the Levenshtein distance: the number of inserted, deleted and replaced letters.
func countEdits(typed, name string) int {
	letters := []rune(name)
	row := make([]int, len(letters)+1) // distance from the read part of typed to each prefix of name
	for j := range row {
		row[j] = j
	}
	for _, r := range typed {
		diagonal := row[0]
		row[0]++
		for j, l := range letters {
			replaced := diagonal
			if r != l {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(letters)]
}
