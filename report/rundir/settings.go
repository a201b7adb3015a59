package rundir

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Setting is one value of a configuration.
type Setting struct {
	Key   string // names from the outside in, joined with dots
	Value string // as JSON
}

// isZero reports whether the value is that of a setting nobody made. Such settings count
// as left out, so that a new one does not change the digests of old runs.
func (s *Setting) isZero() bool {
	switch s.Value {
	case "0", "-0", "false", `""`, "null":
		return true
	}
	return false
}

// Settings lists what v, a struct of exported fields, consists of, sorted by
// key. Values that name themselves (fmt.Stringer) are written by name; nil
// pointers to structs are left out, others are "none".
func Settings(v any) []Setting {
	var all []Setting
	walkFields("", reflect.ValueOf(v), &all)
	slices.SortFunc(all, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func walkFields(key string, v reflect.Value, all *[]Setting) {
	if named, ok := v.Interface().(fmt.Stringer); ok && v.Kind() != reflect.Pointer && v.Kind() != reflect.Struct {
		*all = append(*all, Setting{key, quoteText(named.String())})
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case !v.IsNil():
			walkFields(key, v.Elem(), all)
		case v.Type().Elem().Kind() != reflect.Struct:
			*all = append(*all, Setting{key, `"none"`}) // told apart from a zero
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walkFields(joinKeys(key, snakeCase(f.Name)), v.Field(i), all)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walkFields(joinKeys(key, strconv.Itoa(i)), v.Index(i), all)
		}
	case reflect.Func, reflect.Chan, reflect.Map, reflect.Interface, reflect.UnsafePointer:
		panic(fmt.Sprintf("setting %s is a %v, want a plain value", key, v.Kind()))
	default:
		*all = append(*all, Setting{key, plainText(v)})
	}
}

// plainText is a number, a truth or a text as JSON.
func plainText(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsInf(f, 0) || math.IsNaN(f) {
			return quoteText(strconv.FormatFloat(f, 'g', -1, 64))
		}
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.String:
		return quoteText(v.String())
	}
	return fmt.Sprint(v.Interface())
}

func quoteText(s string) string {
	quoted, _ := json.Marshal(s) // a string cannot fail
	return string(quoted)
}

func joinKeys(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// snakeCase is a field's name in small letters with underscores between words.
func snakeCase(name string) string {
	name = strings.NewReplacer("SGLang", "Sglang", "MoE", "Moe", "KVBytes", "KvBytes").Replace(name)
	letters := []rune(name)
	var b strings.Builder
	for i, r := range letters {
		if i > 0 && unicode.IsUpper(r) {
			after := i+1 < len(letters) && unicode.IsLower(letters[i+1])
			if !unicode.IsUpper(letters[i-1]) || after {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
