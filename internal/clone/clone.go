// Package clone deep-copies a value with all its fields, so that a simulation can be forked.
//
// The copy has the same structure: two pointers to one value become two pointers to one copy. Pointers into a struct
// or a slice are copied in the same way.
//
// Slices that share memory also share memory in the copy. Values of shared types are not copied, because they never
// change. A function or a channel cannot be copied: Of returns an error that names its field.
//
// Read clone.go, then plan.go (pointers in the memory of a type) and regions.go (memory that was found).
package clone

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// Copier makes copies. Copier is safe for concurrent use.
type Copier struct {
	shared []reflect.Type
	mutex  sync.Mutex
	plans  map[reflect.Type]*plan
}

// New returns a Copier that does not copy values of the shared types. For a shared type T, pointers to T are not
// copied either.
func New(shared ...reflect.Type) *Copier {
	return &Copier{shared: append(shared, reflect.TypeFor[time.Time](), reflect.TypeFor[reflect.Type]()), plans: map[reflect.Type]*plan{}}
}

// Of returns a deep copy of the value that v points to. The value must not change during the call.
func Of[T any](c *Copier, v *T) (*T, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	job := copying{Copier: c, at: map[unsafe.Pointer]int32{}, maps: map[unsafe.Pointer]unsafe.Pointer{}}
	if err := job.find(region{elem: reflect.TypeFor[T](), from: unsafe.Pointer(v), count: 1, used: 1, name: reflect.TypeFor[T]().String()}); err != nil {
		return nil, err
	}
	if err := job.merge(); err != nil {
		return nil, err
	}
	job.allocate()
	for i := range job.found {
		r := &job.found[i]
		if p := c.planOf(r.elem); !p.plain {
			job.redirectAll(p, r.to, r.count)
		}
	}
	return (*T)(job.translate(unsafe.Pointer(v))), nil
}

// isShared reports whether values of type t are shared and not copied.
func (c *Copier) isShared(t reflect.Type) bool {
	return slices.Contains(c.shared, t) || t.Kind() == reflect.Pointer && slices.Contains(c.shared, t.Elem())
}

// copying is the state of one call of Of.
type copying struct {
	*Copier
	found []region
	at    map[unsafe.Pointer]int32          // index in found, by the start address of the region
	todo  []int32                           // indices of regions that are still to be searched for pointers
	maps  map[unsafe.Pointer]unsafe.Pointer // copies of maps
}

// find finds all memory that is reachable from root.
func (x *copying) find(root region) error {
	x.addRegion(root)
	for len(x.todo) > 0 {
		r := x.found[x.todo[len(x.todo)-1]]
		x.todo = x.todo[:len(x.todo)-1]
		plan := x.planOf(r.elem)
		if plan.plain {
			continue
		}
		for i := range r.count {
			if err := x.follow(plan, unsafe.Add(r.from, uintptr(i)*r.elem.Size())); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow adds the regions that the value at address at points to.
func (x *copying) follow(p *plan, at unsafe.Pointer) error {
	for i := range p.places {
		s := &p.places[i]
		from := unsafe.Add(at, s.offset)
		switch s.kind {
		case reflect.Pointer:
			if to := *(*unsafe.Pointer)(from); to != nil {
				x.addRegion(region{elem: s.elem, from: to, count: 1, used: 1, name: s.name})
			}
		case reflect.Slice:
			if h := (*sliceHeader)(from); h.cap > 0 {
				x.addRegion(region{elem: s.elem, from: h.data, count: h.cap, used: h.len, name: s.name})
			}
		case reflect.Map:
			if err := x.followMap(s, from); err != nil {
				return err
			}
		case reflect.Interface:
			if v := reflect.NewAt(s.typ, from).Elem().Elem(); v.IsValid() {
				if err := x.followBoxed(v); err != nil {
					return err
				}
			}
		default: // a function, a channel, an unsafe pointer
			if *(*unsafe.Pointer)(from) != nil {
				return fmt.Errorf("%s is a %v, which cannot be copied", s.name, s.typ)
			}
		}
	}
	return nil
}

// followMap adds the regions that the keys and values of a map point to.
func (x *copying) followMap(s *place, from unsafe.Pointer) error {
	m := reflect.NewAt(s.typ, from).Elem()
	if m.IsNil() || x.planOf(s.typ.Key()).plain && x.planOf(s.typ.Elem()).plain {
		return nil
	}
	for all := m.MapRange(); all.Next(); {
		if err := x.followBoxed(all.Key()); err != nil {
			return err
		}
		if err := x.followBoxed(all.Value()); err != nil {
			return err
		}
	}
	return nil
}

// followBoxed adds the regions that v points to. v is a map key, a map value or a value in an interface.
func (x *copying) followBoxed(v reflect.Value) error {
	plan := x.planOf(v.Type())
	if plan.plain {
		return nil
	}
	own := reflect.New(v.Type())
	own.Elem().Set(v)
	return x.follow(plan, own.UnsafePointer())
}

// redirectAll is redirect for count consecutive copied values from address at.
func (x *copying) redirectAll(p *plan, at unsafe.Pointer, count int) {
	for i := range count {
		x.redirect(p, unsafe.Add(at, uintptr(i)*p.size))
	}
}

// redirect replaces the pointers in the copied value at address at by pointers to copies.
func (x *copying) redirect(p *plan, at unsafe.Pointer) {
	for i := range p.places {
		s := &p.places[i]
		to := unsafe.Add(at, s.offset)
		switch s.kind {
		case reflect.Pointer:
			if q := (*unsafe.Pointer)(to); *q != nil {
				*q = x.translate(*q)
			}
		case reflect.Slice:
			if h := (*sliceHeader)(to); h.cap > 0 {
				h.data, h.cap = x.translateSlice(h.data, h.cap, s.elem.Size())
			}
		case reflect.Map:
			x.redirectMap(s, to)
		case reflect.Interface:
			v := reflect.NewAt(s.typ, to).Elem()
			if old := v.Elem(); old.IsValid() {
				if plan := x.planOf(old.Type()); !plan.plain {
					v.Set(x.redirectBoxed(plan, old))
				}
			}
		}
	}
}

// redirectBoxed returns a copy of v. v is a map key, a map value or a value in an interface.
func (x *copying) redirectBoxed(p *plan, v reflect.Value) reflect.Value {
	if p.plain {
		return v
	}
	own := reflect.New(v.Type())
	own.Elem().Set(v)
	x.redirect(p, own.UnsafePointer())
	return own.Elem()
}

// redirectMap replaces the map at address to with its copy.
func (x *copying) redirectMap(s *place, to unsafe.Pointer) {
	m := reflect.NewAt(s.typ, to).Elem()
	if m.IsNil() {
		return
	}
	old := m.UnsafePointer()
	if own, ok := x.maps[old]; ok {
		*(*unsafe.Pointer)(to) = own // another field refers to the same map
		return
	}
	key, value := x.planOf(s.typ.Key()), x.planOf(s.typ.Elem())
	own := reflect.MakeMapWithSize(s.typ, m.Len())
	for all := m.MapRange(); all.Next(); {
		own.SetMapIndex(x.redirectBoxed(key, all.Key()), x.redirectBoxed(value, all.Value()))
	}
	m.Set(own)
	x.maps[old] = own.UnsafePointer()
}
