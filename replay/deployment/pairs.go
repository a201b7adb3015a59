package deployment

import "strings"

// addPairs adds the names and values of a list that Python printed. The sign is = for the fields of an object
// (name=value) and : for a dictionary ('name': value). Lists and objects inside a value belong to that value. If a
// name occurs several times, its first value counts.
func addPairs(into map[string]string, list, sign string) {
	depth, quote, from := 0, rune(0), 0
	add := func(text string) {
		name, value, ok := strings.Cut(text, sign)
		name = strings.Trim(name, ` '"`)
		if _, told := into[name]; ok && !told {
			into[name] = strings.Trim(value, ` '"`)
		}
	}
	for i, r := range list {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			depth--
		case r == ',' && depth == 0:
			add(list[from:i])
			from = i + 1
		}
	}
	add(list[from:])
}
