package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt/wire"
)

var (
	malformedInputs = flag.Int("malformed", 2000, "malformed inputs over every port of a fleet")
	malformedSeed   = flag.Uint64("malformed-seed", 1, "seed of the malformed inputs")
)

// siege is a fleet that gets malformed inputs: workers for both request planes, of prefill and decode, and a frontend.
type siege struct {
	t       *testing.T
	c       *compound
	members map[string]*member
	home    net.Listener // plays a caller that answers with what it should not
	hung    atomic.Int64
	rogue   atomic.Int64 // requests that came to workers that answer wrongly
	ports   []siegePort
}

// siegePort is a place that takes inputs.
type siegePort struct {
	name string
	send func(m *mutator) error
}

// etcd asks the JSON gateway of etcd.
func (s *siege) etcd(path string, body map[string]string) (answer struct {
	Kvs []struct{ Key, Value []byte }
}, err error) {
	for k, v := range body {
		body[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	text, _ := json.Marshal(body)
	var r *http.Response
	for from := time.Now(); ; time.Sleep(10 * time.Millisecond) { // its gateway is unavailable at first
		r, err = http.Post(s.c.servers.EtcdURL()+"/v3/kv/"+path, "application/json", strings.NewReader(string(text)))
		if err != nil {
			return answer, err
		}
		if r.StatusCode != http.StatusServiceUnavailable || time.Since(from) > 10*time.Second {
			break
		}
		r.Body.Close()
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("etcd: %s", r.Status)
	}
	return answer, json.NewDecoder(r.Body).Decode(&answer)
}

// exchange writes an input, and waits until the other side has answered it and closed the connection: at the
// latest when it reads that nothing follows, before which the input is left open for patience.
func (s *siege) exchange(address string, input []byte, patience time.Duration) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(clusterLimit))
	if _, err := c.Write(input); err != nil {
		return nil // it was closed on us
	}
	if patience > 0 {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); err == nil {
			return nil
		}
	}
	_ = c.(*net.TCPConn).CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, c); err != nil && os.IsTimeout(err) {
		s.hung.Add(1)
		return fmt.Errorf("%s does not close the connection after %q", address, input[:min(len(input), 600)])
	}
	return nil
}

// addRaw adds a port that takes bytes, of which these are good ones.
func (s *siege) addRaw(name, address string, patience time.Duration, good ...[]byte) {
	s.ports = append(s.ports, siegePort{name, func(m *mutator) error {
		return s.exchange(address, m.mutate(good[m.rng.IntN(len(good))]), patience)
	}})
}

// addHTTP adds a server of HTTP: requests are malformed as they are on the wire, or in their body alone.
func (s *siege) addHTTP(name, url string, requests ...string) {
	address := strings.TrimPrefix(url, "http://")
	s.ports = append(s.ports, siegePort{name, func(m *mutator) error {
		line, body, _ := strings.Cut(requests[m.rng.IntN(len(requests))], "\n")
		whole := m.rng.IntN(3) == 0
		if !whole {
			body = string(m.mutate([]byte(body)))
		}
		text := fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", line, len(body), body)
		if whole {
			text = string(m.mutate([]byte(text)))
		}
		return s.exchange(address, []byte(text), 100*time.Millisecond)
	}})
}

// request is a request of a caller who is called back at address, with a frame that is good or has something wrong inside.
func (s *siege) request(m *mutator, address string) []byte {
	f, err := wire.NewRequest(wire.CallHome{Address: address, Subject: cancel.NewID(), Context: cancel.NewID()}, 0,
		[]byte(`{"token_ids":[1,2,3,4,5,6,7,8],"model":"mocker-model","stop_conditions":{"max_tokens":3},"sampling_options":{"seed":1},"annotations":[]}`))
	if err != nil {
		s.t.Fatal(err)
	}
	switch m.rng.IntN(3) {
	case 0:
		f.Header = m.mutate(f.Header)
	case 1:
		f.Body = m.mutate(f.Body)
	}
	b := f.Append(nil)
	if m.rng.IntN(3) == 0 {
		b = m.mutate(b)
	}
	return b
}

// frameTCP is a request to a worker that takes them directly.
func frameTCP(path string, frame []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(path)))
	b = append(b, path...)
	headers := `{"x-replay-heartbeat-ms":"10000"}`
	b = binary.BigEndian.AppendUint16(b, uint16(len(headers)))
	b = append(b, headers...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(frame)))
	return append(b, frame...)
}

// addRequests adds the two request planes.
func (s *siege) addRequests() {
	for _, name := range []string{"nats", "tcp"} {
		at := s.instanceOf(s.members[name])
		s.ports = append(s.ports, siegePort{"requests over " + name, func(m *mutator) error {
			frame := s.request(m, s.home.Addr().String())
			if name == "nats" {
				return s.publish(at, frame)
			}
			address, path, _ := strings.Cut(at, "/")
			b := frameTCP(path, frame)
			if m.rng.IntN(2) == 0 {
				b = m.mutate(b)
			}
			return s.exchange(address, b, 0)
		}})
	}
}

// instanceOf is where a worker takes requests.
func (s *siege) instanceOf(m *member) string {
	all, err := s.etcd("range", map[string]string{"key": "v1/instances/", "range_end": "v1/instances0"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		at := regexp.MustCompile(`"(?:nats_tcp|tcp)":"([^"]*)"`).FindSubmatch(kv.Value)
		if at != nil && strings.HasSuffix(string(kv.Key), "generate/"+m.Instance) {
			return string(at[1])
		}
	}
	s.t.Fatalf("no instance %s", m.Instance)
	return ""
}

// publish sends a request over NATS, by hand, and waits for the answer.
func (s *siege) publish(subject string, frame []byte) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(s.c.servers.NATSURL(), "nats://"))
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	inbox := "_INBOX." + cancel.NewID()
	if _, err := fmt.Fprintf(c, "CONNECT {\"verbose\":false}\r\nSUB %s 1\r\nPUB %s %s %d\r\n%s\r\nPING\r\n", inbox, subject, inbox, len(frame), frame); err != nil {
		return err
	}
	buffer, said := make([]byte, 4096), ""
	for !strings.Contains(said, "MSG "+inbox) {
		n, err := c.Read(buffer)
		if err != nil {
			s.hung.Add(1)
			return fmt.Errorf("no answer to %q over NATS: %v", frame[:min(len(frame), 600)], err)
		}
		said += string(buffer[:n])
	}
	return nil
}

// answerCallers plays the caller of every request: it sends workers signals that are none, and hangs up.
func (s *siege) answerCallers(wg *sync.WaitGroup) {
	for i := uint64(0); ; i++ {
		c, err := s.home.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer c.Close()
			m := newMutator(*malformedSeed, 1<<40+i)
			signal := wire.NewSignal(wire.Signal([]string{"stop", "kill", "sentinel"}[m.rng.IntN(3)])).Append(nil)
			_, _ = c.Write(m.mutate(signal))
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, _ = io.Copy(io.Discard, c)
		})
	}
}

// addDiscovery adds values of etcd, which go again at once.
func (s *siege) addDiscovery() {
	all, err := s.etcd("range", map[string]string{"key": "\x00", "range_end": "\x00"})
	if err != nil || len(all.Kvs) < 8 {
		s.t.Fatalf("%d keys, %v", len(all.Kvs), err)
	}
	s.ports = append(s.ports, siegePort{"etcd", func(m *mutator) error {
		kv := all.Kvs[m.rng.IntN(len(all.Kvs))]
		key := string(kv.Key)[:strings.LastIndexAny(string(kv.Key), "/-")+1] + fmt.Sprintf("%x", m.rng.Uint64())
		if m.rng.IntN(4) == 0 {
			key = "v1/mdc/" + string(m.mutate([]byte("dynamo/backend/generate/abc")))
		}
		if _, err := s.etcd("put", map[string]string{"key": key, "value": string(m.mutate(kv.Value))}); err != nil {
			return err
		}
		_, err := s.etcd("deleterange", map[string]string{"key": key})
		return err
	}})
}

// addEvents adds the sockets that a worker publishes KV events at.
func (s *siege) addEvents(events, replay string) {
	greeting := make([]byte, 64)
	greeting[0], greeting[8], greeting[9], greeting[10], greeting[11] = 0xff, 1, 0x7f, 3, 1
	copy(greeting[12:], "NULL")
	for name, at := range map[string]string{"SUB": events, "DEALER": replay} {
		ready := "\x05READY\x0bSocket-Type\x00\x00\x00" + string(rune(len(name))) + name + "\x08Identity\x00\x00\x00\x00"
		hello := append(greeting[:64:64], "\x04"+string(rune(len(ready)))+ready...)
		good := [][]byte{hello, append(hello[:len(hello):len(hello)], "\x04\x0a\x09SUBSCRIBE\x00\x01\x01a\x00\x04\x05PING\x00\x00"...)}
		if name == "DEALER" {
			good = append(good, append(hello[:len(hello):len(hello)], "\x01\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x01"...))
		}
		s.addRaw("KV events to "+name, strings.TrimPrefix(at, "tcp://"), 0, good...)
	}
}
