package zmtp

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
)

// SubOptions configure the connection of a Sub.
type SubOptions struct {
	// Heartbeat is the interval between pings, default 5 s.
	Heartbeat time.Duration
	// Silence is how long the publisher may send nothing before the Sub reconnects, default 15 s.
	Silence time.Duration
	// Retry is the pause before the second attempt to connect, default 100 ms. The pause doubles up to RetryMost,
	// default 5 s.
	Retry, RetryMost time.Duration
	Dial             Dial // opens connections; nil: to any address
}

func (o *SubOptions) setDefaults() {
	o.Heartbeat = cmp.Or(max(o.Heartbeat, 0), 5*time.Second)
	o.Silence = cmp.Or(max(o.Silence, 0), 15*time.Second)
	o.Retry = cmp.Or(max(o.Retry, 0), 100*time.Millisecond)
	o.RetryMost = cmp.Or(max(o.RetryMost, 0), 5*time.Second)
}

// Sub is a SUB socket that follows one publisher, and reconnects whenever the connection is lost. A Sub queues
// deliveries until Receive returns them. While more than 64 MiB are queued, the connection is not read.
type Sub struct {
	endpoint string
	topic    string
	options  SubOptions
	done     sync.WaitGroup
	cancel   context.CancelFunc

	mu    sync.Mutex
	queue []Delivery
	size  int       // total bytes of the queue
	taken bell.Bell // rings after the queue was emptied
	wake  bell.Bell // rings after the queue has grown
}

// Delivery is a message or a change of the connection.
type Delivery struct {
	Message   Message
	Connected bool  // the connection is open and the publisher has received the subscription
	Err       error // why the connection failed
}

// NewSub follows the publisher at an endpoint, tcp://host:port. The subscriber receives messages with a first frame
// that starts with topic.
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

// subscribed is how long to wait for the confirmation that the publisher has read the subscription. Some publishers
// never send the confirmation.
const subscribed = time.Second

// followConnection makes one connection and reads it to its end.
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
	} else { // ZMTP 3.0 has subscriptions as messages, and no heartbeat
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

// sendPings sends a ping in each heartbeat interval.
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

// mostWaiting is the number of queued bytes above which the connection is not read.
const mostWaiting = 64 << 20

// awaitRoom waits until at most mostWaiting bytes are queued. awaitRoom reports false if ctx ended meanwhile.
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
			return true // the next read returns the error
		case <-ctx.Done():
			return false
		}
	}
}

func (s *Sub) queueDelivery(d Delivery) {
	s.mu.Lock()
	s.queue = append(s.queue, d)
	s.size += 128 // approximate size of a Delivery
	for _, frame := range d.Message {
		s.size += len(frame)
	}
	s.mu.Unlock()
	s.wake.Ring()
}

// Receive appends all queued deliveries to dst. Receive waits until there is at least one delivery.
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

// Close closes the socket and waits for its goroutines.
func (s *Sub) Close() {
	s.cancel()
	s.done.Wait()
}
