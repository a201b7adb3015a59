// Package nearest finds the known name that is most like a misspelled one.
package nearest

import "strings"

// longest bounds the bytes of names that are compared, which takes their number cubed.
const longest = 100

// Ask returns ", did you mean NAME?" with the name that is nearest to the one that was
// typed, and "" when none is near.
func Ask(typed string, names []string) string {
	if near := Name(typed, names); near != "" {
		return ", did you mean " + near + "?"
	}
	return ""
}

// Name returns the name nearest to the typed one, in any case of letters. Of two equally near names, the continuation
// of the typed one wins. It returns "" if no name is near: if more than a third of the letters differ, where a
// transposition counts as one. Names of more than longest bytes are near nothing.
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

// countChanges counts the letters that differ, two neighbours that were swapped being one.
func countChanges(typed, name string) int {
	least := countEdits(typed, name)
	for i := 1; i < len(typed); i++ {
		swapped := typed[:i-1] + typed[i:i+1] + typed[i-1:i] + typed[i+1:]
		least = min(least, 1+countEdits(swapped, name))
	}
	return least
}

// countEdits returns the Levenshtein distance: the letters to insert, delete or replace.
func countEdits(typed, name string) int {
	letters := []rune(name)
	row := make([]int, len(letters)+1) // edits from what was read of typed to each beginning of name
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
