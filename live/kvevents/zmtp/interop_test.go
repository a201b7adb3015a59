package zmtp

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/replay-llm/replay/internal/poll"
)

// A SUB socket of another implementation follows a Pub, and a Sub follows a PUB socket of the other implementation.
// The other implementation uses ZMTP 3.0, in which subscriptions are messages.
func TestOtherSub(t *testing.T) {
	p := listenPub(t, 1000)
	theirs := zmq4.NewSub(within(t))
	defer theirs.Close()
	if err := theirs.Dial(p.Endpoint()); err != nil {
		t.Fatal(err)
	}
	if err := theirs.SetOption(zmq4.OptionSubscribe, "kv"); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a subscriber", func() bool { return p.Subscribers() == 1 })
	big := make([]byte, 100_000)
	for i := range 200 {
		p.Send(Message{[]byte("other"), nil})
		p.Send(Message{[]byte("kv"), fmt.Append(nil, i), big})
	}
	for i := range 200 {
		m, err := theirs.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Frames) != 3 || string(m.Frames[1]) != fmt.Sprint(i) || len(m.Frames[2]) != len(big) {
			t.Fatalf("message %d has %d frames, %q", i, len(m.Frames), m.Frames[1])
		}
	}
}

func TestOtherPub(t *testing.T) {
	theirs := zmq4.NewPub(within(t))
	defer theirs.Close()
	if err := theirs.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s := subscribeTo(t, "tcp://"+theirs.Addr().String(), "kv", SubOptions{})
	poll.Until(t, "a topic", func() bool { return len(theirs.(zmq4.Topics).Topics()) == 1 })
	for i := range 100 {
		if err := theirs.Send(zmq4.NewMsgFrom([]byte("kv"), fmt.Append(nil, i))); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range receive(t, s, 100) {
		if m != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, m)
		}
	}
}

// Requests and answers between a Router and another implementation's DEALER socket, and between a Dealer and its
// ROUTER socket.
func TestOtherDealer(t *testing.T) {
	r, err := ListenRouter(Listener{Endpoint: "tcp://127.0.0.1:0"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	theirs := zmq4.NewDealer(within(t))
	defer theirs.Close()
	if err := theirs.Dial(r.Endpoint()); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Send(zmq4.NewMsgFrom(nil, []byte("from 7"))); err != nil {
		t.Fatal(err)
	}
	q := <-r.Requests()
	if len(q.Frames) != 2 || string(q.Frames[1]) != "from 7" {
		t.Fatalf("asked %q", q.Frames)
	}
	for i := range 50 {
		q.Reply(Message{nil, fmt.Append(nil, i), []byte("payload")})
	}
	for i := range 50 {
		m, err := theirs.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Frames) != 3 || string(m.Frames[1]) != fmt.Sprint(i) {
			t.Fatalf("answer %d is %q", i, m.Frames)
		}
	}
}

func TestOtherRouter(t *testing.T) {
	theirs := zmq4.NewRouter(within(t))
	defer theirs.Close()
	if err := theirs.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	d, err := Dial(nil).Dealer(within(t), "tcp://"+theirs.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Send(Message{nil, []byte("from 7")}); err != nil {
		t.Fatal(err)
	}
	q, err := theirs.Recv()
	if err != nil || len(q.Frames) != 3 || string(q.Frames[2]) != "from 7" {
		t.Fatalf("asked %q %v", q.Frames, err)
	}
	if err := theirs.Send(zmq4.NewMsgFrom(q.Frames[0], nil, []byte("seq"), []byte("payload"))); err != nil {
		t.Fatal(err)
	}
	m, err := d.Receive()
	if err != nil || len(m) != 3 || string(m[2]) != "payload" {
		t.Errorf("answer %q %v", m, err)
	}
}
