package yamlfile

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/sim"
)

// field is a key of a mapping with the struct field for its value.
type field struct {
	name, kinds string
	to          reflect.Value
	tag         reflect.StructTag
	group       []field // keys of a nested mapping without a struct; nil: field to receives the value
}

// Keys returns the keys of a struct, including the keys of nested mappings.
func Keys(of any) []string {
	return appendKeys(nil, listFields(reflect.New(reflect.TypeOf(of)).Elem()))
}

func appendKeys(all []string, fields []field) []string {
	for _, x := range fields {
		all = appendKeys(append(all, x.name), x.group)
		if x.group != nil {
			continue
		}
		t := x.to.Type()
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct {
			all = appendKeys(all, listFields(reflect.New(t).Elem()))
		}
	}
	return all
}

// listFields returns the keys of a struct in the order of its fields.
func listFields(of reflect.Value) (all []field) {
	for i := range of.NumField() {
		tag := of.Type().Field(i).Tag
		names := strings.Split(tag.Get("yaml"), ",")
		kinds := strings.Split(tag.Get("of"), ",")
		to := of.Field(i)
		if len(names) == 2 && names[0] == "" { // inline
			if to.Kind() == reflect.Pointer && to.IsNil() { // files of this kind do not have its keys
				to = reflect.New(to.Type().Elem())
			}
			all = append(all, listFields(reflect.Indirect(to))...)
			continue
		}
		for k, name := range names {
			x := field{name, kinds[min(k, len(kinds)-1)], to, tag, nil}
			outer, inner, grouped := strings.Cut(name, ".")
			at := slices.IndexFunc(all, func(y field) bool { return y.name == outer })
			switch x.name = inner; {
			case name == "":
			case !grouped:
				x.name = name
				all = append(all, x)
			case at < 0:
				all = append(all, field{name: outer, kinds: x.kinds, group: []field{x}})
			default:
				all[at].group = append(all[at].group, x)
			}
		}
	}
	return all
}

func namesOf(fields []field) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// setText parses a text and sets a value. bounds such as 1..8 or 1.. limit numbers.
func setText(to reflect.Value, text, bounds string) error {
	low, high, _ := strings.Cut(bounds, "..")
	if at, ok := to.Addr().Interface().(*sim.Time); ok {
		var err error
		if *at, err = cli.ParseInstant(text); err != nil {
			return excerpt.Errorf("%s: %w", text, err)
		}
		return nil
	}
	switch to.Kind() {
	case reflect.String:
		to.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return excerpt.Errorf("%s: must be true or false", text)
		}
		to.SetBool(text == "true")
	case reflect.Float64:
		least, most := parseBound(low, 0), parseBound(high, 1e12)
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= least && n <= most) {
			return excerpt.Errorf("%s: must be a number from %v to %v", text, least, most)
		}
		to.SetFloat(n)
	case reflect.Int, reflect.Int32:
		least, most := int64(parseBound(low, 0)), int64(parseBound(high, math.MaxInt32))
		n, err := strconv.ParseInt(text, 10, 64)
		switch bad := err != nil || n < least || n > most; {
		case bad && high == "":
			return excerpt.Errorf("%s: must be a whole number from %d on", text, least)
		case bad:
			return excerpt.Errorf("%s, must be %d to %d", text, least, most)
		}
		to.SetInt(n)
	default:
		panic(fmt.Sprintf("yamlfile: a field of type %v has no rule", to.Type()))
	}
	return nil
}

// parseBound parses a bound in a tag. parseBound returns other if text is empty.
func parseBound(text string, other float64) float64 {
	if text == "" {
		return other
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // the tag is part of the program
	}
	return n
}
