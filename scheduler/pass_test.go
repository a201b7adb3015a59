package scheduler

import (
	"reflect"
	"testing"
)

// Reset clears all fields, and keeps only the memory of slices.
func TestReset(t *testing.T) {
	var p Pass
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 3, 8))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int:
			f.SetInt(7)
		case reflect.Float64:
			f.SetFloat(7)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		default:
			t.Fatalf("field %s is a %v: say here how to fill it", v.Type().Field(i).Name, f.Kind())
		}
	}
	detail := p.Detail
	p.Reset(5)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice {
			if f.Len() != 0 || f.Cap() != 8 {
				t.Errorf("%s has length %d of %d, want 0 of 8", v.Type().Field(i).Name, f.Len(), f.Cap())
			}
			f.Set(reflect.Zero(f.Type()))
		}
	}
	if want := (Pass{Start: 5, End: 5, Count: 1, Detail: detail}); !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
}
