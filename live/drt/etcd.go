package drt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/replay-llm/replay/live/fault"
)

// etcdStore is keys under leases in etcd.
type etcdStore struct {
	client *clientv3.Client
	config *Config
}

// connectEtcd waits for etcd as long as ctx lasts.
func connectEtcd(ctx, lifetime context.Context, config *Config) (*etcdStore, error) {
	secure, err := clientTLS(config.Etcd.CA, config.Etcd.Cert, config.Etcd.Key)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: config.Etcd.Endpoints, Username: config.Etcd.Username, Password: config.Etcd.Password,
		TLS: secure, Context: lifetime, Logger: zap.NewNop(), RejectOldCluster: false,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(reconnectParams())},
		DialTimeout: config.Connect, DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	if err == nil {
		// Any answer will do; the key need not be there.
		_, err = client.Get(ctx, "v1/instances/", clientv3.WithCountOnly())
	}
	if err != nil {
		if client != nil {
			_ = client.Close()
		}
		return nil, fault.New(fault.CannotConnect, "etcd at %q: %w", config.Etcd.Endpoints, err)
	}
	return &etcdStore{client, config}, nil
}

// reconnectParams returns how often a lost connection is tried again: a lease does not wait for
// long.
func reconnectParams() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
		MinConnectTimeout: 2 * time.Second,
	}
}

// grantLease makes a lease. It may last longer than was asked for.
func (s *etcdStore) grantLease(ctx context.Context, ttl time.Duration) (uint64, error) {
	r, err := s.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, fmt.Errorf("lease of %v: %w", ttl, err)
	}
	return uint64(r.ID), nil
}

// renewLease starts the lease's time anew. The error is errLeaseGone, or one that
// says nothing about the lease.
func (s *etcdStore) renewLease(ctx context.Context, id uint64) error {
	_, err := s.client.KeepAliveOnce(ctx, clientv3.LeaseID(id))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return errLeaseGone
	}
	return err
}

// revokeLease ends a lease and removes its keys.
func (s *etcdStore) revokeLease(ctx context.Context, id uint64) error {
	_, err := s.client.Revoke(ctx, clientv3.LeaseID(id))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// createKeys writes pairs under a lease, all or none. A key that is there is an
// error, unless it is of the same lease.
func (s *etcdStore) createKeys(ctx context.Context, lease uint64, pairs []pair) error {
	var absent []clientv3.Cmp
	var puts, gets []clientv3.Op
	for _, p := range pairs {
		absent = append(absent, clientv3.Compare(clientv3.Version(p.key), "=", 0))
		puts = append(puts, clientv3.OpPut(p.key, string(p.value), clientv3.WithLease(clientv3.LeaseID(lease))))
		gets = append(gets, clientv3.OpGet(p.key))
	}
	r, err := s.client.Txn(ctx).If(absent...).Then(puts...).Else(gets...).Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return errLeaseGone
	}
	if err != nil || r.Succeeded {
		return err
	}
	for _, found := range r.Responses {
		for _, kv := range found.GetResponseRange().Kvs {
			if kv.Lease != int64(lease) {
				return fmt.Errorf("%s: belongs to instance %s", kv.Key, hexID(uint64(kv.Lease)))
			}
		}
	}
	// Some of them are there, and ours.
	_, err = s.client.Txn(ctx).Then(puts...).Commit()
	return err
}

// removeKeys removes the keys of pairs, if they are there.
func (s *etcdStore) removeKeys(ctx context.Context, pairs []pair) error {
	var deletes []clientv3.Op
	for _, p := range pairs {
		deletes = append(deletes, clientv3.OpDelete(p.key))
	}
	_, err := s.client.Txn(ctx).Then(deletes...).Commit()
	return err
}

// etcdWatch follows the values under a prefix.
type etcdWatch[T any] struct {
	store  *etcdStore
	prefix string
	decode func(value []byte) (T, error) // errOther: passed over in silence
	show   func(all []T)
	known  map[string]T // by key
}

// watchValues shows the values under a prefix, in any order, now and after every
// change until ctx ends. It returns when they were shown for the first time, which
// may be none.
func watchValues[T any](ctx context.Context, s *etcdStore, prefix string, decode func([]byte) (T, error), show func([]T)) error {
	w := &etcdWatch[T]{store: s, prefix: prefix, decode: decode, show: show}
	first, release := context.WithTimeout(ctx, s.config.Connect)
	defer release()
	from, err := w.listKeys(first)
	if err != nil {
		return fmt.Errorf("keys under %s: %w", prefix, err)
	}
	go w.followChanges(ctx, from)
	return nil
}

// listKeys shows what is there now. It returns the revision to follow from.
func (w *etcdWatch[T]) listKeys(ctx context.Context) (int64, error) {
	r, err := w.store.client.Get(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return 0, err
	}
	w.known = make(map[string]T, len(r.Kvs))
	for _, kv := range r.Kvs {
		w.noteValue(string(kv.Key), kv.Value)
	}
	w.showAll()
	return r.Header.Revision + 1, nil
}

// noteValue notes the value of a key; one that cannot be read changes nothing.
func (w *etcdWatch[T]) noteValue(key string, value []byte) {
	v, err := w.decode(value)
	switch {
	case err == nil:
		w.known[key] = v
	case !errors.Is(err, errOther):
		w.store.config.Log.Warn("key skipped", "key", key, "reason", err)
	}
}

func (w *etcdWatch[T]) showAll() { w.show(slices.Collect(maps.Values(w.known))) }

// followChanges shows changes until ctx ends. When the history it needs is gone
// (compaction), or the watch breaks, it lists again.
func (w *etcdWatch[T]) followChanges(ctx context.Context, from int64) {
	for backoff := 100 * time.Millisecond; ; {
		if w.streamChanges(ctx, from) {
			backoff = 100 * time.Millisecond
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, 5*time.Second)
			// An etcd that is down must not hold this up for ever.
			again, release := context.WithTimeout(ctx, 5*time.Second)
			next, err := w.listKeys(again)
			release()
			if err == nil {
				from = next
				break
			}
		}
	}
}

// streamChanges shows changes from a revision on. It reports whether there were any.
func (w *etcdWatch[T]) streamChanges(ctx context.Context, from int64) bool {
	ctx, release := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer release()
	some := false
	for r := range w.store.client.Watch(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if r.Err() != nil {
			return some
		}
		for _, e := range r.Events {
			if e.Type == clientv3.EventTypeDelete {
				delete(w.known, string(e.Kv.Key))
			} else {
				w.noteValue(string(e.Kv.Key), e.Kv.Value)
			}
		}
		if len(r.Events) > 0 {
			some = true
			w.showAll()
		}
	}
	return some
}
