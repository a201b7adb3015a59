// Package zmtp implements ZeroMQ's wire protocol (ZMTP 3.1, NULL mechanism, TCP) for the four socket types of KV
// events. PUB and ROUTER sockets listen; SUB and DEALER sockets connect.
//
// Sends never block, because each peer has a separate queue. Each socket type documents the effect of a full queue.
// Memory for the data of a peer is limited.
//
// Read frame.go, greeting.go, conn.go, then listen.go, pub.go, router.go for listening sockets, and dial.go, sub.go
// for connecting sockets.
package zmtp

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/exact"
)

// Flags of a frame.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// maxFrames is the maximum number of frames of one message.
const maxFrames = 64

// Message is the frames of one message.
type Message [][]byte

// packMessage returns the encoded message.
func packMessage(m Message) (wire []byte) {
	for i, body := range m {
		flags := byte(0)
		if i < len(m)-1 {
			flags = flagMore
		}
		wire = appendFrame(wire, flags, body)
	}
	return wire
}

func appendFrame(dst []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		dst = append(dst, flags|flagLong)
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	} else {
		dst = append(dst, flags, byte(len(body)))
	}
	return append(dst, body...)
}

// appendCommand appends an encoded command.
func appendCommand(dst []byte, name string, body []byte) []byte {
	b := make([]byte, 0, 1+len(name)+len(body))
	b = append(b, byte(len(name)))
	b = append(b, name...)
	return appendFrame(dst, flagCommand, append(b, body...))
}

// frame is a received frame.
type frame struct {
	flags byte
	body  []byte
}

func (f *frame) hasMore() bool   { return f.flags&flagMore != 0 }
func (f *frame) isCommand() bool { return f.flags&flagCommand != 0 }

// readFrame reads one frame of at most limit bytes.
func readFrame(r *bufio.Reader, limit int) (frame, error) {
	flags, err := r.ReadByte()
	if err != nil {
		return frame{}, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagCommand != 0 && flags&flagMore != 0 {
		return frame{}, fmt.Errorf("flags of a frame are %#02x, must be more, long or command", flags)
	}
	size, err := readSize(r, flags&flagLong != 0)
	if err != nil {
		return frame{}, err
	}
	if size > uint64(limit) {
		return frame{}, fmt.Errorf("frame of %d bytes, must be at most %d", size, limit)
	}
	body, err := exact.ReadN(r, int(size))
	return frame{flags: flags, body: body}, err
}

func readSize(r *bufio.Reader, long bool) (uint64, error) {
	if !long {
		b, err := r.ReadByte()
		return uint64(b), exact.UnexpectedEOF(err)
	}
	var b [8]byte
	_, err := io.ReadFull(r, b[:])
	return binary.BigEndian.Uint64(b[:]), exact.UnexpectedEOF(err)
}

// parseCommand splits the body of a command frame into name and data.
func parseCommand(body []byte) (name string, rest []byte, err error) {
	if len(body) == 0 || int(body[0]) > len(body)-1 || body[0] == 0 {
		return "", nil, fmt.Errorf("command of %d bytes without a name", len(body))
	}
	n := 1 + int(body[0])
	return string(body[1:n]), body[n:], nil
}
