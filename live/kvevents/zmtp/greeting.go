package zmtp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/replay-llm/replay/internal/exact"
	"github.com/replay-llm/replay/internal/excerpt"
)

// Type is the type of a socket.
type Type string

// Types of sockets, with their names on the wire.
const (
	TypePub    Type = "PUB"
	TypeSub    Type = "SUB"
	TypeRouter Type = "ROUTER"
	TypeDealer Type = "DEALER"
)

// acceptsPeer reports whether a socket of type t may connect to a socket of the type peer.
func (t Type) acceptsPeer(peer string) bool {
	return slices.Contains(map[Type][]string{
		TypePub: {"SUB", "XSUB"}, TypeSub: {"PUB", "XPUB"},
		TypeRouter: {"DEALER", "REQ", "ROUTER"}, TypeDealer: {"ROUTER", "REP", "DEALER"},
	}[t], peer)
}

const (
	greetingBytes  = 64
	mechanism      = "NULL"
	handshakeLimit = 4096 // bytes of a frame during the handshake
)

// appendGreeting appends the greeting, the first bytes of each side.
func appendGreeting(dst []byte) []byte {
	var g [greetingBytes]byte
	g[0], g[8], g[9] = 0xff, 1, 0x7f
	g[10], g[11] = 3, 1
	copy(g[12:32], mechanism)
	return append(dst, g[:]...)
}

// readGreeting reads the peer's greeting and returns its minor version.
func readGreeting(r io.Reader) (minor byte, err error) {
	var g [greetingBytes]byte
	if _, err := io.ReadFull(r, g[:11]); err != nil {
		return 0, exact.UnexpectedEOF(err)
	}
	switch {
	case g[0] != 0xff || g[9] != 0x7f:
		return 0, fmt.Errorf("greeting begins with % x, expected the signature of ZMTP", g[:10])
	case g[10] < 3:
		return 0, fmt.Errorf("peer speaks ZMTP %d, must be 3", g[10])
	}
	if _, err := io.ReadFull(r, g[11:]); err != nil {
		return 0, exact.UnexpectedEOF(err)
	}
	if m := bytes.TrimRight(g[12:32], "\x00"); string(m) != mechanism {
		return 0, excerpt.Errorf("peer requires the mechanism %q, must be %s", m, mechanism)
	}
	if g[10] > 3 {
		return 1, nil
	}
	return g[11], nil
}

// appendReady appends the READY command, which ends the handshake.
func appendReady(dst []byte, t Type) []byte {
	var meta []byte
	meta = appendProperty(meta, "Socket-Type", string(t))
	if t == TypeDealer {
		meta = appendProperty(meta, "Identity", "")
	}
	return appendCommand(dst, "READY", meta)
}

func appendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// readReady reads the peer's READY and checks its socket type.
func readReady(r *bufio.Reader, t Type) error {
	f, err := readFrame(r, handshakeLimit)
	if err != nil {
		return exact.UnexpectedEOF(err)
	}
	if !f.isCommand() {
		return fmt.Errorf("message of %d bytes before READY", len(f.body))
	}
	name, rest, err := parseCommand(f.body)
	if err != nil {
		return err
	}
	if name == "ERROR" {
		return excerpt.Errorf("peer refused: %q", rest)
	}
	if name != "READY" {
		return excerpt.Errorf("command %q, expected READY", name)
	}
	peer, err := findProperty(rest, "Socket-Type")
	if err != nil {
		return err
	}
	if !t.acceptsPeer(peer) {
		return excerpt.Errorf("peer is a %q socket, which a %s socket does not talk to", peer, t)
	}
	return nil
}

// findProperty returns the value of a property in the metadata of READY.
func findProperty(meta []byte, want string) (string, error) {
	for rest := meta; len(rest) > 0; {
		n := int(rest[0])
		if len(rest) < 1+n+4 {
			return "", fmt.Errorf("metadata of READY end after %d bytes, in the middle of a property", len(meta))
		}
		name, after := rest[1:1+n], rest[1+n:]
		size := binary.BigEndian.Uint32(after)
		if after = after[4:]; uint64(size) > uint64(len(after)) {
			return "", excerpt.Errorf("property %q has %d bytes, and %d are left", name, size, len(after))
		}
		if bytes.EqualFold(name, []byte(want)) {
			return string(after[:size]), nil
		}
		rest = after[size:]
	}
	return "", fmt.Errorf("READY without %s", want)
}
