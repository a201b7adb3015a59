package runs

import (
	"slices"
	"sync"
)

// mostRecent is how many values a Recent keeps.
const mostRecent = 4

// Recent keeps the values that were asked for last. It may be used by several goroutines at once.
type Recent[T any] struct {
	mutex sync.Mutex
	all   []recent[T] // the one asked for last is the last
}

type recent[T any] struct {
	key   string
	value T
}

// Get returns the value with a key, which is created unless it is kept, by one goroutine at a time.
func (k *Recent[T]) Get(key string, create func() T) T {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	i := slices.IndexFunc(k.all, func(r recent[T]) bool { return r.key == key })
	if i < 0 {
		k.all = append(k.all, recent[T]{key, create()})
		i = len(k.all) - 1
	}
	r := k.all[i]
	k.all = append(slices.Delete(k.all, i, i+1), r)
	if len(k.all) > mostRecent {
		k.all = slices.Delete(k.all, 0, 1)
	}
	return r.value
}
