// Package queue spreads the cells of a sweep over processes and machines: a
// JetStream work queue whose messages are leased, results under the hash of what
// they depend on, and a list of cells that cannot be finished.
//
// A result is stored before its message is acknowledged, and a worker looks for
// it before it runs a cell: killing workers or the server loses nothing and
// repeats at most what was being run.
//
// Read queue.go (what there is on the server), submit.go, work.go with leased.go
// (one message), child.go (a process that runs cells), cache.go (files), then
// collect.go.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/credential"
)

// Names of what a sweep has on the server.
const (
	streamName   = "SWEEP"
	consumerName = "workers"
	resultBucket = "SWEEP_RESULTS"
	deadBucket   = "SWEEP_DEAD"
	triesBucket  = "SWEEP_TRIES"
	fileBucket   = "SWEEP_FILES"
	subjectRoot  = "sweep"
)

// duplicates is how long a message id is remembered.
const duplicates = 10 * time.Minute

// Lease is how long a worker may be silent before its cell goes to another.
const Lease = 30 * time.Second

// Queue is a connection to the server of sweeps.
type Queue struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream
	messages jetstream.Consumer
	results  jetstream.KeyValue // by key of the task; created once, never changed
	dead     jetstream.KeyValue // by key: cells that are given up
	tries    jetstream.KeyValue // by key: how often a cell took its process down
	files    jetstream.ObjectStore
	lease    time.Duration
}

// Open connects to the server at url and makes there what is missing. lease is
// how long a worker may be silent; 0: Lease.
func Open(ctx context.Context, url string, lease time.Duration) (*Queue, error) {
	url, who, err := credential.Split(url)
	if err != nil {
		return nil, fmt.Errorf("URL of NATS: %w", err)
	}
	o := []nats.Option{nats.Name("replay sweep"), nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond)}
	switch {
	case who.HasPassword:
		o = append(o, nats.UserInfo(who.Name, who.Password))
	case who.Name != "":
		o = append(o, nats.Token(who.Name))
	}
	conn, err := nats.Connect(url, o...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	q := &Queue{conn: conn, lease: cmp.Or(lease, Lease)}
	if err := q.prepareServer(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return q, nil
}

// Close ends the connection, after what was sent has left.
func (q *Queue) Close() {
	_ = q.conn.FlushTimeout(time.Second) // leases run out by themselves
	q.conn.Close()
}

func (q *Queue) prepareServer(ctx context.Context) (err error) {
	if q.js, err = jetstream.New(q.conn); err != nil {
		return err
	}
	if q.stream, err = q.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{subjectRoot + ".>"}, Retention: jetstream.WorkQueuePolicy,
		Storage: jetstream.FileStorage, Duplicates: duplicates,
	}); err != nil {
		return err
	}
	// Deliveries are not limited here: a message that went to a program of
	// another version, or to a worker that was killed, says nothing against its
	// cell. Workers count the tries that do.
	if q.messages, err = q.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.lease, MaxDeliver: -1, MaxAckPending: -1,
	}); err != nil {
		return err
	}
	for _, b := range []struct {
		name   string
		bucket *jetstream.KeyValue
	}{{resultBucket, &q.results}, {deadBucket, &q.dead}, {triesBucket, &q.tries}} {
		if *b.bucket, err = q.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: b.name, Storage: jetstream.FileStorage}); err != nil {
			return err
		}
	}
	q.files, err = q.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: fileBucket, Storage: jetstream.FileStorage})
	return err
}

// Result is what is stored of a finished cell.
type Result struct {
	Report  rawJSON `json:"report"`
	Version string  `json:"version"`
	Host    string  `json:"host"`
	WallMS  float64 `json:"wall_ms"` // real time the cell took
}

// Dead is what is stored of a cell that is given up.
type Dead struct {
	Reason string `json:"reason"`
	Tries  int    `json:"tries"`
}

const (
	attemptLimit = 5 * time.Second // of one request to the server
	outageLimit  = 5 * time.Minute // of all attempts of a request
	attemptPause = 200 * time.Millisecond
)

// retryRequest repeats a request until the server has answered it, which may be
// restarted meanwhile. Answers that another attempt would only repeat are
// returned.
func retryRequest(ctx context.Context, request func(context.Context) error) error {
	until := time.Now().Add(outageLimit)
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptLimit)
		err := request(attempt)
		cancel()
		if err == nil || isAnswer(err) || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
		sleepFor(ctx, attemptPause)
	}
}

// isAnswer reports whether err is an answer of the server.
func isAnswer(err error) bool {
	for _, answer := range []error{
		jetstream.ErrKeyExists, jetstream.ErrKeyNotFound, jetstream.ErrObjectNotFound, jetstream.ErrKeyDeleted,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// getJSON reads the value of a key; the entry is nil when there is none.
func getJSON[T any](ctx context.Context, bucket jetstream.KeyValue, key string) (v T, entry jetstream.KeyValueEntry, err error) {
	err = retryRequest(ctx, func(ctx context.Context) (err error) {
		entry, err = bucket.Get(ctx, key)
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrKeyDeleted) {
		return v, nil, nil
	}
	if err != nil {
		return v, nil, err
	}
	if err := json.Unmarshal(entry.Value(), &v); err != nil {
		return v, nil, fmt.Errorf("%s: %s: %w", bucket.Bucket(), key, err)
	}
	return v, entry, nil
}

// putJSON stores the value of a key.
func putJSON(ctx context.Context, bucket jetstream.KeyValue, key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return retryRequest(ctx, func(ctx context.Context) error {
		_, err := bucket.Put(ctx, key, text)
		return err
	})
}
