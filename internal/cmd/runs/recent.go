package runs

import (
	"slices"
	"sync"
)

// mostRecent is the maximum number of values in a Recent.
const mostRecent = 4

// Recent caches the most recently used values. Recent is safe for concurrent use.
type Recent[T any] struct {
	mutex sync.Mutex
	all   []recent[T] // ordered by use, the most recently used value last
}

type recent[T any] struct {
	key   string
	value T
}

// Get returns the value for a key. Get calls create if the value is not cached. Only one goroutine at a time calls
// create.
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
