package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/plan"
)

type rawJSON = json.RawMessage

// Manifest is a sweep as it is kept on the server.
type Manifest struct {
	ID   string    `json:"id"`
	Grid plan.Grid `json:"grid"`
	Keys []string  `json:"keys"` // of the tasks, in grid order, those of resamples last
}

// Submitted is what came of handing in a sweep.
type Submitted struct {
	ID     string
	Cells  int
	Known  int // cells that have a result
	Queued int // cells that were put into the queue
}

// Submit hands in the cells of a grid and of resamples of it, tasks, that have no result. path is
// where the file of a digest lies.
func (q *Queue) Submit(ctx context.Context, g *plan.Grid, tasks []plan.Task, path func(digest string) string) (*Submitted, error) {
	m := newManifest(g, tasks)
	if err := q.putFiles(ctx, tasks, path); err != nil {
		return nil, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if err := retryRequest(ctx, func(ctx context.Context) error {
		_, err := q.files.PutBytes(ctx, manifestName(m.ID), text)
		return err
	}); err != nil {
		return nil, err
	}
	s := &Submitted{ID: m.ID, Cells: len(tasks)}
	var acks []jetstream.PubAckFuture
	for i := range tasks {
		ack, err := q.queueCell(ctx, m, i, &tasks[i])
		if err != nil {
			return nil, err
		}
		if ack == nil {
			s.Known++
			continue
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case ok := <-ack.Ok():
			if !ok.Duplicate {
				s.Queued++
			}
		case err := <-ack.Err():
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s, nil
}

func manifestName(id string) string { return "sweep/" + id }

// newManifest names a sweep after its cells.
func newManifest(g *plan.Grid, tasks []plan.Task) *Manifest {
	m := &Manifest{Grid: *g}
	for i := range tasks {
		m.Keys = append(m.Keys, tasks[i].Key())
	}
	sum := sha256.Sum256([]byte(strings.Join(m.Keys, " ")))
	m.ID = hex.EncodeToString(sum[:6])
	return m
}

// queueCell puts a cell into the queue, unless it has a result; the ack is nil then.
// A cell that was given up gets new tries.
func (q *Queue) queueCell(ctx context.Context, m *Manifest, cell int, t *plan.Task) (jetstream.PubAckFuture, error) {
	key := m.Keys[cell]
	if _, known, err := getJSON[rawJSON](ctx, q.results, key); err != nil || known != nil {
		return nil, err
	}
	id := key
	if _, entry, err := getJSON[rawJSON](ctx, q.dead, key); err != nil {
		return nil, err
	} else if entry != nil {
		// Its message id has been used. The revision makes a new one.
		id = fmt.Sprintf("%s/%d", key, entry.Revision())
		for _, bucket := range []jetstream.KeyValue{q.tries, q.dead} {
			if err := retryRequest(ctx, func(ctx context.Context) error { return bucket.Delete(ctx, key) }); err != nil {
				return nil, err
			}
		}
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(fmt.Sprintf("%s.%s.%d", subjectRoot, m.ID, cell))
	msg.Data = text
	return q.js.PublishMsgAsync(msg, jetstream.WithMsgID(id))
}

// putFiles stores the files that tasks need, each once, under its digest.
func (q *Queue) putFiles(ctx context.Context, tasks []plan.Task, path func(digest string) string) error {
	stored := map[string]bool{}
	for i := range tasks {
		for _, f := range tasks[i].Files {
			if stored[f.SHA256] {
				continue
			}
			stored[f.SHA256] = true
			if err := q.putFile(ctx, f.SHA256, path(f.SHA256)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *Queue) putFile(ctx context.Context, digest, path string) error {
	if _, err := q.files.GetInfo(ctx, digest); err == nil {
		return nil
	} else if !errors.Is(err, jetstream.ErrObjectNotFound) {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := q.files.Put(ctx, jetstream.ObjectMeta{Name: digest}, f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
