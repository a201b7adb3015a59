package drt

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdWatch follows the values under a key prefix.
type etcdWatch[T any] struct {
	store *etcdStore
	keysOf
	decode func(value []byte) (T, error) // errOther: the key is ignored
	show   func(all []T)

	known    map[string]watched[T] // known values by key
	revision int64                 // revision of known
	cluster  uint64
	doubt    time.Time // end of the time that doubtful values are kept; zero: no doubtful values
}

// keysOf selects the keys to follow.
type keysOf struct {
	prefix string
	hold   time.Duration // how long missing keys are kept after etcd has lost its data
}

// watched is the value of a key.
type watched[T any] struct {
	value    T
	created  int64 // revision of the key's creation
	doubtful bool  // etcd has lost its data, and this key was not written again
}

// watchValues calls show with all values of keys, in any order, now and after every change until the store closes.
// watchValues returns after the first call of show. While etcd is down, the known values are kept. If etcd has lost
// its data, missing keys are kept for the time hold, so that their owners can write them again.
func watchValues[T any](ctx context.Context, s *etcdStore, keys keysOf, decode func([]byte) (T, error), show func([]T)) error {
	w := &etcdWatch[T]{store: s, keysOf: keys, decode: decode, show: show}
	member := s.contact.join()
	first, release := context.WithTimeout(ctx, s.config.Connect)
	defer release()
	if err := w.listKeys(first); err != nil {
		s.contact.leave(member)
		return fmt.Errorf("keys under %s: %w", keys.prefix, err)
	}
	go func() {
		defer s.contact.leave(member)
		w.followChanges(s.lifetime, member)
	}()
	return nil
}

// listKeys reads and shows the present keys.
func (w *etcdWatch[T]) listKeys(ctx context.Context) error {
	r, err := w.store.client.Get(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return err
	}
	before := w.known
	lost := w.isOtherHistory(r)
	w.known = make(map[string]watched[T], len(r.Kvs))
	for _, kv := range r.Kvs {
		key := string(kv.Key)
		if old, ok := before[key]; ok {
			w.known[key] = watched[T]{old.value, kv.CreateRevision, false} // kept if the new value cannot be decoded
		}
		w.noteValue(key, kv.Value, kv.CreateRevision)
	}
	if lost && w.hold > 0 {
		w.doubt = time.Now().Add(w.hold)
	}
	doubtful := 0
	for key, old := range before {
		if _, there := w.known[key]; !there && w.hold > 0 && (lost || old.doubtful) {
			w.known[key] = watched[T]{old.value, old.created, true}
			doubtful++
		}
	}
	if doubtful == 0 {
		w.doubt = time.Time{}
	}
	w.revision, w.cluster = r.Header.Revision, r.Header.ClusterId
	w.showAll()
	return nil
}

// isOtherHistory reports whether the answer comes from an etcd that has lost or replaced its data. In this case the
// cluster differs, its revision is lower, or a known key was created at another old revision.
func (w *etcdWatch[T]) isOtherHistory(r *clientv3.GetResponse) bool {
	if w.revision == 0 {
		return false
	}
	if r.Header.ClusterId != w.cluster || r.Header.Revision < w.revision {
		return true
	}
	for _, kv := range r.Kvs {
		if old, ok := w.known[string(kv.Key)]; ok && kv.CreateRevision <= w.revision && kv.CreateRevision != old.created {
			return true
		}
	}
	return false
}

// noteValue stores the value of a key. noteValue skips a value that decode rejects.
func (w *etcdWatch[T]) noteValue(key string, value []byte, created int64) {
	v, err := w.decode(value)
	switch {
	case err == nil:
		w.known[key] = watched[T]{v, created, false}
	case !errors.Is(err, errOther):
		w.store.config.Log.Warn("key skipped", "key", key, "reason", err)
	}
}

func (w *etcdWatch[T]) showAll() {
	all := make([]T, 0, len(w.known))
	for _, one := range w.known {
		all = append(all, one.value)
	}
	w.show(all)
}

// dropDoubtful drops the values of keys that were not written again.
func (w *etcdWatch[T]) dropDoubtful() {
	w.doubt = time.Time{}
	for key, one := range w.known {
		if one.doubtful {
			delete(w.known, key)
		}
	}
	w.showAll()
}

// followChanges shows changes until ctx ends. followChanges lists all keys again after the connection was lost, the
// needed history was compacted, or the watch failed.
func (w *etcdWatch[T]) followChanges(ctx context.Context, member *contactReader) {
	for backoff := 100 * time.Millisecond; ; {
		member.noteListed()
		some, lost := w.streamChanges(ctx, member)
		if some || lost {
			backoff = 100 * time.Millisecond
		}
		for pause := !lost; ; pause = true {
			if pause {
				select {
				case <-ctx.Done():
				case <-time.After(backoff):
				}
				backoff = min(2*backoff, time.Second)
			}
			if ctx.Err() != nil {
				return
			}
			// The timeout keeps an etcd that is down from blocking this loop.
			member.noteListing()
			again, release := context.WithTimeout(ctx, 5*time.Second)
			err := w.listKeys(again)
			release()
			if err == nil {
				break
			}
		}
	}
}

// streamChanges shows changes since the last revision. streamChanges reports whether there were changes, and whether
// the watch ended because the connection to etcd was lost and restored.
func (w *etcdWatch[T]) streamChanges(ctx context.Context, member *contactReader) (some, lost bool) {
	ctx, release := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer release()
	changes := w.store.client.Watch(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(w.revision+1))
	for {
		var doubt <-chan time.Time
		if !w.doubt.IsZero() {
			doubt = time.After(time.Until(w.doubt))
		}
		select {
		case r, more := <-changes:
			if !more || r.Err() != nil {
				return some, false
			}
			some = w.noteEvents(r) || some
		case <-doubt:
			w.dropDoubtful()
		case <-member.relist():
			return some, true
		}
	}
}

// noteEvents stores changes, and reports whether there were any.
func (w *etcdWatch[T]) noteEvents(r clientv3.WatchResponse) bool {
	w.revision = max(w.revision, r.Header.Revision)
	for _, e := range r.Events {
		if e.Type == clientv3.EventTypeDelete {
			delete(w.known, string(e.Kv.Key))
		} else {
			w.noteValue(string(e.Kv.Key), e.Kv.Value, e.Kv.CreateRevision)
		}
	}
	if len(r.Events) > 0 {
		w.showAll()
	}
	return len(r.Events) > 0
}
