package drt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/replay-llm/replay/live/fault"
)

// etcdStore stores keys under leases in etcd.
type etcdStore struct {
	client  *clientv3.Client
	config  *Config
	contact *contact

	lifetime context.Context // ends the watches
}

// connectEtcd connects to etcd, and retries until ctx ends.
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
		// The key need not exist: any answer shows that etcd is ready.
		_, err = client.Get(ctx, instancesKey, clientv3.WithCountOnly())
	}
	if err != nil {
		if client != nil {
			_ = client.Close()
		}
		return nil, fault.New(fault.CannotConnect, "etcd at %q: %w", config.Etcd.Endpoints, err)
	}
	return &etcdStore{client, config, newContact(client, config.Log), lifetime}, nil
}

// reconnectParams returns the backoff of reconnections. The backoff is short because a lease expires soon.
func reconnectParams() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
		MinConnectTimeout: 2 * time.Second,
	}
}

// grantLease creates a lease, which may last longer than ttl.
func (s *etcdStore) grantLease(ctx context.Context, ttl time.Duration) (uint64, error) {
	r, err := s.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, fmt.Errorf("lease of %v: %w", ttl, err)
	}
	return uint64(r.ID), nil
}

// grantLeaseAs creates a lease with the given id.
func (s *etcdStore) grantLeaseAs(ctx context.Context, id uint64, ttl time.Duration) error {
	wanted := &etcdserverpb.LeaseGrantRequest{ID: int64(id), TTL: int64((ttl + time.Second - 1) / time.Second)}
	if _, err := clientv3.RetryLeaseClient(s.client).LeaseGrant(ctx, wanted); err != nil {
		return fmt.Errorf("lease %s of %v: %w", hexID(id), ttl, err)
	}
	return nil
}

// renewLease restarts the time of a lease. renewLease returns errLeaseGone if the lease does not exist. After any
// other error the lease may still exist.
func (s *etcdStore) renewLease(ctx context.Context, id uint64) error {
	_, err := s.client.KeepAliveOnce(ctx, clientv3.LeaseID(id))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return errLeaseGone
	}
	return err
}

// revokeLease revokes a lease and removes its keys.
func (s *etcdStore) revokeLease(ctx context.Context, id uint64) error {
	_, err := s.client.Revoke(ctx, clientv3.LeaseID(id))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// createKeys writes all pairs under a lease, or none. createKeys fails if a key exists under another lease.
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
	// Some keys exist under this lease.
	_, err = s.client.Txn(ctx).Then(puts...).Commit()
	return err
}

// removeKeys removes the keys of pairs that exist.
func (s *etcdStore) removeKeys(ctx context.Context, pairs []pair) error {
	var deletes []clientv3.Op
	for _, p := range pairs {
		deletes = append(deletes, clientv3.OpDelete(p.key))
	}
	_, err := s.client.Txn(ctx).Then(deletes...).Commit()
	return err
}
