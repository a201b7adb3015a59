// Package plausible generates JSON that matches a schema, and answers with tool calls.
//
// Read schema.go, then tools.go.
package plausible

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

const (
	mostDepth = 12 // maximum depth of nested values
	mostItems = 64 // maximum number of list items and of text bytes, unless the schema requires more
	mostBytes = 64 << 10
)

// maker generates one value.
type maker struct {
	draw *rand.Rand
	root map[string]any
}

// Value returns JSON that matches a schema. The result depends only on the schema and the seed.
func Value(schema json.RawMessage, seed uint64) ([]byte, error) {
	var root any
	if len(schema) == 0 {
		schema = json.RawMessage("{}")
	}
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	m := &maker{draw: rand.New(rand.NewPCG(seed, 0x706c6175))}
	m.root, _ = root.(map[string]any)
	var out strings.Builder
	err := m.write(&out, root, 0)
	return []byte(out.String()), err
}

// resolve resolves references, and merges allOf and one branch of anyOf or oneOf into a schema.
func (m *maker) resolve(schema any, depth int) (map[string]any, error) {
	s, ok := schema.(map[string]any)
	if !ok {
		if schema == false {
			return nil, fmt.Errorf("schema is false, which accepts no value")
		}
		return map[string]any{}, nil
	}
	for range mostDepth {
		ref, ok := s["$ref"].(string)
		if !ok {
			break
		}
		at := any(m.root)
		for _, key := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
			o, _ := at.(map[string]any)
			at = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
		}
		next, ok := at.(map[string]any)
		if !ok || !strings.HasPrefix(ref, "#") {
			return nil, excerpt.Errorf("$ref is %q, must be a place of the schema", ref)
		}
		s = next
	}
	if _, cyclic := s["$ref"]; cyclic {
		return nil, fmt.Errorf("$ref: more than %d references follow each other", mostDepth)
	}
	var parts []any
	if all, ok := s["allOf"].([]any); ok {
		parts = append(parts, all...)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if branches, ok := s[key].([]any); ok && len(branches) > 0 {
			at := m.draw.IntN(len(branches))
			if depth > mostDepth/2 { // recursive types end with the simplest branch
				at = slices.IndexFunc(branches, func(one any) bool {
					o, _ := one.(map[string]any)
					return o["$ref"] == nil && o["type"] != "object" && o["type"] != "array"
				})
				at = max(at, 0)
			}
			parts = append(parts, branches[at])
		}
	}
	if len(parts) == 0 {
		return s, nil
	}
	return m.mergeParts(s, parts, depth)
}

// mergeParts merges the keys of parts into a schema.
func (m *maker) mergeParts(s map[string]any, parts []any, depth int) (map[string]any, error) {
	merged := map[string]any{}
	for k, v := range s {
		merged[k] = v
	}
	for _, part := range parts {
		if depth > 2*mostDepth {
			return nil, fmt.Errorf("schema is nested more than %d times", 2*mostDepth)
		}
		o, err := m.resolve(part, depth+1)
		if err != nil {
			return nil, err
		}
		for k, v := range o {
			switch old := merged[k].(type) {
			case map[string]any:
				if next, ok := v.(map[string]any); ok && k == "properties" {
					both := map[string]any{}
					for name, one := range old {
						both[name] = one
					}
					for name, one := range next {
						both[name] = one
					}
					v = both
				}
			case []any:
				if next, ok := v.([]any); ok && k == "required" {
					v = append(slices.Clone(old), next...)
				}
			}
			merged[k] = v
		}
	}
	return merged, nil
}

// write appends a value that matches a schema.
func (m *maker) write(out *strings.Builder, schema any, depth int) error {
	if out.Len() > mostBytes || depth > mostDepth {
		return fmt.Errorf("the schema requires more than %d bytes or %d levels", mostBytes, mostDepth)
	}
	s, err := m.resolve(schema, depth)
	if err != nil {
		return err
	}
	if v, ok := s["const"]; ok {
		return writeAny(out, v)
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return writeAny(out, list[m.draw.IntN(len(list))])
	}
	switch m.kindOf(s) {
	case "object":
		return m.writeObject(out, s, depth)
	case "array":
		return m.writeArray(out, s, depth)
	case "integer":
		return m.writeNumber(out, s, true)
	case "number":
		return m.writeNumber(out, s, false)
	case "boolean":
		out.WriteString(strconv.FormatBool(m.draw.IntN(2) == 0))
	case "null":
		out.WriteString("null")
	default:
		return m.writeString(out, s)
	}
	return nil
}

// kindOf returns the JSON type of the value to generate.
func (m *maker) kindOf(s map[string]any) string {
	switch kind := s["type"].(type) {
	case string:
		return kind
	case []any:
		if len(kind) > 0 {
			text, _ := kind[m.draw.IntN(len(kind))].(string)
			return text
		}
	}
	for _, one := range [][2]string{{"properties", "object"}, {"required", "object"}, {"items", "array"}, {"minItems", "array"}, {"minimum", "number"}, {"maximum", "number"}, {"multipleOf", "number"}} {
		if _, ok := s[one[0]]; ok {
			return one[1]
		}
	}
	return "string"
}

// writeObject appends an object with all required keys. Only objects at the upper levels have optional keys.
func (m *maker) writeObject(out *strings.Builder, s map[string]any, depth int) error {
	properties, _ := s["properties"].(map[string]any)
	var required []string
	if list, ok := s["required"].([]any); ok {
		for _, one := range list {
			if name, ok := one.(string); ok {
				required = append(required, name)
			}
		}
	}
	names := slices.Clone(required)
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	least := integerOf(s, "minProperties", 0)
	kept := names[:0:0]
	for i, name := range names {
		if slices.Contains(required, name) || len(names)-i <= least-len(kept) || depth < mostDepth/3 && m.draw.IntN(4) > 0 {
			kept = append(kept, name)
		}
	}
	if most := integerOf(s, "maxProperties", len(kept)); len(kept) > most {
		kept = slices.DeleteFunc(kept, func(name string) bool { return !slices.Contains(required, name) })
	}
	for i := 0; len(kept) < least && i < mostItems; i++ {
		kept = append(kept, "key_"+strconv.Itoa(i))
	}
	out.WriteByte('{')
	for i, name := range kept {
		if i > 0 {
			out.WriteString(", ")
		}
		_ = writeAny(out, name)
		out.WriteString(": ")
		of, ok := properties[name]
		if more, is := s["additionalProperties"].(map[string]any); !ok && is {
			of = more
		}
		if err := m.write(out, of, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

// writeArray appends a list.
func (m *maker) writeArray(out *strings.Builder, s map[string]any, depth int) error {
	least := integerOf(s, "minItems", 0)
	most := integerOf(s, "maxItems", max(least, 3))
	prefix, _ := s["prefixItems"].([]any)
	n := least
	if depth < mostDepth/2 && most > least {
		n += m.draw.IntN(min(most-least, 3) + 1)
	}
	if s["items"] == false {
		n = min(n, len(prefix))
	}
	seen := map[string]bool{}
	out.WriteByte('[')
	for i := range n {
		of := s["items"]
		if i < len(prefix) {
			of = prefix[i]
		}
		var one strings.Builder
		for range 100 {
			one.Reset()
			if err := m.write(&one, of, depth+1); err != nil {
				return err
			}
			if s["uniqueItems"] != true || !seen[one.String()] {
				break
			}
		}
		if s["uniqueItems"] == true && seen[one.String()] {
			if i >= least {
				break
			}
			return fmt.Errorf("minItems is %d with uniqueItems, which items do not give", least)
		}
		seen[one.String()] = true
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(one.String())
		if out.Len() > mostBytes {
			return fmt.Errorf("the schema requires more than %d bytes", mostBytes)
		}
	}
	out.WriteByte(']')
	return nil
}

// writeNumber appends a number in the range of the schema.
func (m *maker) writeNumber(out *strings.Builder, s map[string]any, whole bool) error {
	step, stepped := s["multipleOf"].(float64)
	if !stepped || step <= 0 {
		stepped, step = false, 1
		if !whole {
			step = 0.5
		}
	}
	for base, n := step, 2.0; whole && step != math.Trunc(step); n++ {
		if step = base * n; n > 1000 {
			return fmt.Errorf("multipleOf is %v, which has no whole multiple below 1000", base)
		}
	}
	low, high := math.Inf(-1), math.Inf(1)
	if v, ok := s["minimum"].(float64); ok {
		low = math.Ceil(v/step) * step
	}
	if v, ok := s["exclusiveMinimum"].(float64); ok {
		low = max(low, (math.Floor(v/step)+1)*step)
	}
	if v, ok := s["maximum"].(float64); ok {
		high = math.Floor(v/step) * step
	}
	if v, ok := s["exclusiveMaximum"].(float64); ok {
		high = min(high, (math.Ceil(v/step)-1)*step)
	}
	switch {
	case math.IsInf(low, 0) && math.IsInf(high, 0):
		low, high = 0, 1000*step
	case math.IsInf(low, 0):
		low = high - 1000*step
	case math.IsInf(high, 0):
		high = low + 1000*step
	}
	v := low
	if low > high {
		if whole || stepped {
			return fmt.Errorf("no number is in the range of the schema")
		}
		least, most := boundOf(s, "inimum"), boundOf(s, "aximum") // the range contains no multiple of the usual step
		v = least + (most-least)/2
	} else {
		v += math.Floor(m.draw.Float64()*(math.Floor((high-low)/step)+1)) * step
	}
	out.WriteString(strconv.FormatFloat(math.Round(v*1e9)/1e9, 'f', -1, 64))
	return nil
}

// boundOf returns a bound of a range. The bound may be exclusive.
func boundOf(s map[string]any, end string) float64 {
	if v, ok := s["m"+end].(float64); ok {
		return v
	}
	v, _ := s["exclusiveM"+end].(float64)
	return v
}

// writeString appends a text that matches the format, the pattern or the lengths of the schema.
func (m *maker) writeString(out *strings.Builder, s map[string]any) error {
	if pattern, ok := s["pattern"].(string); ok {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return excerpt.Errorf("pattern is %q: %w", pattern, err)
		}
		for range 100 {
			var text strings.Builder
			m.match(&text, tree, 0)
			if n := utf8.RuneCountInString(text.String()); n >= integerOf(s, "minLength", 0) && n <= integerOf(s, "maxLength", mostBytes) {
				return writeAny(out, text.String())
			}
		}
		return excerpt.Errorf("pattern is %q, of which 100 texts miss minLength and maxLength", pattern)
	}
	n := m.draw.Uint32()
	switch s["format"] {
	case "date-time":
		return writeAny(out, fmt.Sprintf("2026-%02d-%02dT%02d:%02d:00Z", n%12+1, n/12%28+1, n/400%24, n/9600%60))
	case "date":
		return writeAny(out, fmt.Sprintf("2026-%02d-%02d", n%12+1, n/12%28+1))
	case "time":
		return writeAny(out, fmt.Sprintf("%02d:%02d:00Z", n%24, n/24%60))
	case "email":
		return writeAny(out, fmt.Sprintf("user%d@example.com", n%1000))
	case "uri", "url", "uri-reference", "iri":
		return writeAny(out, fmt.Sprintf("https://example.com/%d", n%1000))
	case "hostname":
		return writeAny(out, fmt.Sprintf("host%d.example.com", n%1000))
	case "ipv4":
		return writeAny(out, fmt.Sprintf("192.0.2.%d", n%256))
	case "ipv6":
		return writeAny(out, fmt.Sprintf("2001:db8::%x", n%65536))
	case "uuid":
		return writeAny(out, fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", n, n>>16, n&0xfff, n>>20, uint64(n)*7919))
	}
	least, most := integerOf(s, "minLength", 0), integerOf(s, "maxLength", mostItems)
	if least > mostBytes {
		return fmt.Errorf("minLength is %d, must be at most %d", least, mostBytes)
	}
	text := m.word()
	for len(text) < least || m.draw.IntN(2) == 0 && len(text) < mostItems/2 {
		text += " " + m.word()
	}
	if len(text) > most {
		text = text[:max(most, 0)]
	}
	return writeAny(out, text)
}

// word returns a word of lower-case letters.
func (m *maker) word() string {
	const vowels, rest = "aeiou", "bdfgklmnprstv"
	var b []byte
	for range 1 + m.draw.IntN(3) {
		b = append(b, rest[m.draw.IntN(len(rest))], vowels[m.draw.IntN(len(vowels))])
	}
	return string(b)
}

// match appends a text that matches a regular expression.
func (m *maker) match(out *strings.Builder, e *syntax.Regexp, depth int) {
	repeat := func(least, most int) {
		if most < 0 || most > least+3 {
			most = least + 3
		}
		for n := least + m.draw.IntN(most-least+1); n > 0 && out.Len() < mostBytes; n-- {
			m.match(out, e.Sub[0], depth+1)
		}
	}
	switch e.Op {
	case syntax.OpLiteral:
		out.WriteString(string(e.Rune))
	case syntax.OpCharClass:
		out.WriteRune(m.pick(e.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out.WriteByte('a' + byte(m.draw.IntN(26)))
	case syntax.OpStar:
		repeat(0, -1)
	case syntax.OpPlus:
		repeat(1, -1)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		repeat(e.Min, e.Max)
	case syntax.OpAlternate:
		m.match(out, e.Sub[m.draw.IntN(len(e.Sub))], depth+1)
	case syntax.OpConcat, syntax.OpCapture:
		for _, one := range e.Sub {
			m.match(out, one, depth+1)
		}
	}
}

// pick returns a character of a character class, preferably an ASCII character.
func (m *maker) pick(ranges []rune) rune {
	var all []rune
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := max(ranges[i], ' '); r <= min(ranges[i+1], '~'); r++ {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return ranges[0]
	}
	return all[m.draw.IntN(len(all))]
}

// integerOf returns an integer of a schema, or otherwise if the schema does not have the key.
func integerOf(s map[string]any, key string, otherwise int) int {
	if v, ok := s[key].(float64); ok {
		return int(max(0, min(v, math.MaxInt32)))
	}
	return otherwise
}

// writeAny appends a value as JSON.
func writeAny(out *strings.Builder, v any) error {
	b, err := json.MarshalUnescaped(v)
	out.Write(b)
	return err
}
