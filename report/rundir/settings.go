package rundir

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/replay-llm/replay/internal/json"
)

// Settings are the values of a configuration as JSON, by key. A key has the names from the outermost to the innermost
// object, joined with dots.
type Settings map[string]json.RawMessage

// isZero reports whether a value is the zero value of a setting. Zero settings are omitted, so that a new setting
// does not change the digests of old runs.
func isZero(value json.RawMessage) bool {
	switch string(value) {
	case "0", "-0", "false", `""`, "null":
		return true
	}
	return false
}

// Text returns the value of a key if it is a string, else "".
func (all Settings) Text(key string) string {
	var text string
	if json.Unmarshal(all[key], &text) != nil {
		return ""
	}
	return text
}

// IsZero reports whether the setting of a key has its zero value or is absent.
func (all Settings) IsZero(key string) bool {
	value, ok := all[key]
	return !ok || isZero(value)
}

// recorder is a value that is recorded as another value.
type recorder interface{ Recorded() any }

// SettingsOf returns the settings in v, a struct of exported fields. Values with a String method are written by name.
// Nil pointers to structs are omitted; other nil values are "none". The tag `record:"-"` omits a field,
// `record:"omitzero"` omits its zero value, and any other tag is its key. The fields of a struct with
// `record:"inline"` belong to the struct around it.
func SettingsOf(v any) Settings {
	all := Settings{}
	all.walkFields("", reflect.ValueOf(v))
	return all
}

func (all Settings) walkFields(key string, v reflect.Value) {
	if r, ok := v.Interface().(recorder); ok {
		all.walkFields(key, reflect.ValueOf(r.Recorded()))
		return
	}
	if named, ok := v.Interface().(fmt.Stringer); ok && v.Kind() != reflect.Pointer && v.Kind() != reflect.Struct {
		all[key] = quoteText(named.String())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case !v.IsNil():
			all.walkFields(key, v.Elem())
		case v.Type().Elem().Kind() != reflect.Struct:
			all[key] = quoteText("none") // different from a zero
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch tag := f.Tag.Get("record"); {
			case !f.IsExported() || tag == "-" || tag == "omitzero" && v.Field(i).IsZero():
			case tag == "inline":
				all.walkFields(key, v.Field(i))
			case tag != "" && tag != "omitzero":
				all.walkFields(joinKeys(key, tag), v.Field(i))
			default:
				all.walkFields(joinKeys(key, snakeCase(f.Name)), v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			all.walkFields(joinKeys(key, strconv.Itoa(i)), v.Index(i))
		}
	case reflect.Func, reflect.Chan, reflect.Map, reflect.Interface, reflect.UnsafePointer:
		panic(fmt.Sprintf("setting %s is a %v, must be a plain value", key, v.Kind()))
	default:
		all[key] = plainText(v)
	}
}

// plainText returns a number, a boolean or a string as JSON.
func plainText(v reflect.Value) json.RawMessage {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsInf(f, 0) || math.IsNaN(f) {
			return quoteText(strconv.FormatFloat(f, 'g', -1, 64))
		}
		return strconv.AppendFloat(nil, v.Float(), 'g', -1, 64)
	case reflect.String:
		return quoteText(v.String())
	}
	return fmt.Append(nil, v.Interface())
}

func quoteText(s string) json.RawMessage {
	quoted, _ := json.Marshal(s) // a string can always be marshalled
	return quoted
}

func joinKeys(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// snakeCase returns the name of a field in lower case, with underscores between words.
func snakeCase(name string) string {
	for _, word := range [...][2]string{{"SGLang", "Sglang"}, {"MoE", "Moe"}, {"KVBytes", "KvBytes"}} {
		name = strings.ReplaceAll(name, word[0], word[1])
	}
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
