package link

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// tokenMagic begins a connection on which both sides prove a token. The dialer sends a nonce after tokenMagic. The
// listener answers with its own nonce and its proof for both nonces. Then the dialer sends its proof.
const tokenMagic = "RPLYLNK1"

const nonceSize = 32

var (
	errTokenWanted = errors.New("this listener requires a token: set $REPLAY_LINK_TOKEN to the token of the other side")
	errTokenWrong  = errors.New("this listener requires another token: set $REPLAY_LINK_TOKEN to the token of the other side")
)

// proofOf returns the proof of one side.
func proofOf(token, side string, nonces ...[]byte) []byte {
	h := hmac.New(sha256.New, []byte(token))
	_, _ = io.WriteString(h, tokenMagic+side)
	for _, n := range nonces {
		_, _ = h.Write(n)
	}
	return h.Sum(nil)
}

// proveListener authenticates a dialer. The error is sent to the dialer and counted by its reason.
func proveListener(c net.Conn, token string) (reason string, err error) {
	hello := make([]byte, len(tokenMagic)+nonceSize)
	n, err := io.ReadFull(c, hello[:len(tokenMagic)])
	if err != nil || string(hello[:n]) != tokenMagic {
		return noToken, errTokenWanted
	}
	theirs := hello[len(tokenMagic):]
	if _, err := io.ReadFull(c, theirs); err != nil {
		return noToken, errTokenWanted
	}
	ours := make([]byte, nonceSize)
	if _, err := rand.Read(ours); err != nil {
		return noToken, err
	}
	if _, err := c.Write(append(bytes.Clone(ours), proofOf(token, "listener", theirs, ours)...)); err != nil {
		return noToken, err
	}
	proof := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, proof); err != nil || !hmac.Equal(proof, proofOf(token, "dialer", theirs, ours)) {
		return wrongToken, errTokenWrong
	}
	return "", nil
}

// proveDialer authenticates to a listener, after the listener has proven the token.
func proveDialer(c net.Conn, token string) error {
	ours := make([]byte, nonceSize)
	if _, err := rand.Read(ours); err != nil {
		return err
	}
	if _, err := c.Write(append([]byte(tokenMagic), ours...)); err != nil {
		return err
	}
	answer := make([]byte, nonceSize+sha256.Size)
	if n, err := io.ReadFull(c, answer); err != nil {
		if line, refused := strings.CutPrefix(string(answer[:n]), refusalPrefix); refused {
			return refusalOf(c, line)
		}
		return fmt.Errorf("no answer to our token (%w): does it listen with one?", err)
	}
	if line, refused := strings.CutPrefix(string(answer), refusalPrefix); refused {
		return refusalOf(c, line)
	}
	theirs, proof := answer[:nonceSize], answer[nonceSize:]
	if !hmac.Equal(proof, proofOf(token, "listener", ours, theirs)) {
		return errors.New("it has another token than $REPLAY_LINK_TOKEN here")
	}
	_, err := c.Write(proofOf(token, "dialer", ours, theirs))
	return err
}
