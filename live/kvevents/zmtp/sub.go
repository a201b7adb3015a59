package zmtp

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
)

// SubOptions are how a Sub keeps its connection.
type SubOptions struct {
	// Heartbeat is the time between signs of life asked for, default 5 s.
	Heartbeat time.Duration
	// Silence is how long the publisher may be silent before the connection is
	// made anew, default 15 s.
	Silence time.Duration
	// Retry is the pause before the second attempt to connect, default 100 ms. It
	// doubles up to RetryMost, default 5 s.
	Retry, RetryMost time.Duration
	Dial             Dial // connects; nil: to any address
}

func (o *SubOptions) setDefaults() {
	o.Heartbeat = cmp.Or(max(o.Heartbeat, 0), 5*time.Second)
	o.Silence = cmp.Or(max(o.Silence, 0), 15*time.Second)
	o.Retry = cmp.Or(max(o.Retry, 0), 100*time.Millisecond)
	o.RetryMost = cmp.Or(max(o.RetryMost, 0), 5*time.Second)
}

// Sub is a SUB socket that follows one publisher, connecting again whenever the
// connection is lost. What comes in is queued until it is taken; while more than
// 64 MiB are, nothing more is read.
type Sub struct {
	endpoint string
	topic    string
	options  SubOptions
	done     sync.WaitGroup
	cancel   context.CancelFunc

	mu    sync.Mutex
	queue []Delivery
	size  int       // bytes of it
	taken bell.Bell // the queue has been taken
	wake  bell.Bell // the queue has grown
}

// Delivery is a message, or the news that from now on messages are delivered.
type Delivery struct {
	Message   Message
	Connected bool  // a connection stands and the subscription has arrived
	Err       error // why there is no connection
}

// NewSub follows the publisher at an endpoint, tcp://host:port, for messages with a first frame that begins
// with topic.
func NewSub(endpoint, topic string, o SubOptions) (*Sub, error) {
	if _, err := parseEndpoint(endpoint); err != nil {
		return nil, err
	}
	o.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sub{endpoint: endpoint, topic: topic, options: o, cancel: cancel, wake: bell.New(), taken: bell.New()}
	s.done.Go(func() { s.keepConnected(ctx) })
	return s, nil
}

func (s *Sub) keepConnected(ctx context.Context) {
	pause := s.options.Retry
	for {
		began := time.Now()
		err := s.followConnection(ctx)
		if ctx.Err() != nil {
			return
		}
		s.queueDelivery(Delivery{Err: err})
		if time.Since(began) > s.options.RetryMost {
			pause = s.options.Retry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, s.options.RetryMost)
	}
}

// subscribed is how long to wait for the publisher's word that it has read the
// subscription; some never give it.
const subscribed = time.Second

// followConnection follows one connection to its end.
func (s *Sub) followConnection(ctx context.Context) error {
	c, err := s.options.Dial.dialEndpoint(ctx, s.endpoint, TypeSub)
	if err != nil {
		return err
	}
	defer c.closeConn()
	defer context.AfterFunc(ctx, c.closeConn)()
	once := sync.OnceFunc(func() { s.queueDelivery(Delivery{Connected: true}) })
	defer time.AfterFunc(subscribed, once).Stop()
	if c.minor > 0 {
		c.silent = s.options.Silence
		c.queueCommand("SUBSCRIBE", []byte(s.topic))
		c.ponged = once // the answer to a ping means that all earlier messages were read
		s.done.Go(func() { s.sendPings(c) })
	} else { // ZMTP 3.0 subscribes by messages and has no heartbeat
		c.queueMessage(packMessage(Message{append([]byte{1}, s.topic...)}), 1)
	}
	for {
		m, err := c.receiveMessage()
		if err != nil {
			return err
		}
		s.queueDelivery(Delivery{Message: m})
		if !s.awaitRoom(ctx, c) {
			return ctx.Err()
		}
	}
}

// sendPings asks for a sign of life again and again.
func (s *Sub) sendPings(c *conn) {
	t := time.NewTicker(s.options.Heartbeat)
	defer t.Stop()
	for {
		c.queuePing(s.options.Silence)
		select {
		case <-t.C:
		case <-c.alive.Done():
			return
		}
	}
}

// mostWaiting bounds what waits to be taken, in bytes.
const mostWaiting = 64 << 20

// awaitRoom waits until little enough waits to be taken. It reports false if ctx ended
// meanwhile.
func (s *Sub) awaitRoom(ctx context.Context, c *conn) bool {
	for {
		s.mu.Lock()
		full := s.size > mostWaiting
		s.mu.Unlock()
		if !full {
			return true
		}
		select {
		case <-s.taken:
		case <-c.alive.Done():
			return true // which reading finds
		case <-ctx.Done():
			return false
		}
	}
}

func (s *Sub) queueDelivery(d Delivery) {
	s.mu.Lock()
	s.queue = append(s.queue, d)
	s.size += 128 // of what holds it
	for _, frame := range d.Message {
		s.size += len(frame)
	}
	s.mu.Unlock()
	s.wake.Ring()
}

// Receive appends all that has come in to dst, waiting until there is something.
func (s *Sub) Receive(ctx context.Context, dst []Delivery) ([]Delivery, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			dst = append(dst, s.queue...)
			s.queue, s.size = nil, 0
			s.mu.Unlock()
			s.taken.Ring()
			return dst, nil
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	}
}

// Close closes the socket and waits until nothing of it runs.
func (s *Sub) Close() {
	s.cancel()
	s.done.Wait()
}
