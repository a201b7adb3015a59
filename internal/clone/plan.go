package clone

import (
	"reflect"
	"unsafe"
)

// plan lists the pointers in the memory of a type.
type plan struct {
	size   uintptr
	plain  bool // the type has no pointers to copy
	places []place
}

// place is a field with a pointer: a pointer, slice, map or interface, or a type that cannot be copied.
type place struct {
	offset uintptr
	kind   reflect.Kind
	typ    reflect.Type
	elem   reflect.Type // element type of a pointer or a slice
	name   string       // name in errors
}

// sliceHeader is the memory layout of a slice.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

// planOf returns the plan of a type.
func (c *Copier) planOf(t reflect.Type) *plan {
	p, ok := c.plans[t]
	if !ok {
		p = &plan{size: t.Size()}
		c.addPlaces(p, t, 0, t.String())
		p.plain = len(p.places) == 0
		c.plans[t] = p
	}
	return p
}

// addPlaces adds the places of a value of type t at the given offset.
func (c *Copier) addPlaces(p *plan, t reflect.Type, offset uintptr, name string) {
	if c.isShared(t) || t.Size() == 0 {
		return
	}
	s := place{offset: offset, kind: t.Kind(), typ: t, name: name}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			c.addPlaces(p, f.Type, offset+f.Offset, name+"."+f.Name)
		}
		return
	case reflect.Array:
		for i := range t.Len() {
			c.addPlaces(p, t.Elem(), offset+uintptr(i)*t.Elem().Size(), name)
		}
		return
	case reflect.Pointer, reflect.Slice:
		if s.elem = t.Elem(); c.isShared(s.elem) && t.Kind() == reflect.Pointer || s.elem.Size() == 0 {
			return
		}
	case reflect.Map, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
	default:
		return // numbers have no pointers, and the bytes of strings never change
	}
	p.places = append(p.places, s)
}
