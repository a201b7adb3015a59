package peer

import (
	"net"
	"os"
	"strings"
	"time"
)

// isAddress reports whether a command is the address of a server.
func isAddress(command string) bool {
	network, _, _ := strings.Cut(command, ":")
	return network == "unix" || network == "tcp"
}

// connect connects to the server or starts the program.
func (p *Peer) connect() error {
	if isAddress(p.Command) {
		network, address, _ := strings.Cut(p.Command, ":")
		dialer := net.Dialer{Timeout: p.Timeout}
		conn, err := dialer.DialContext(p.ctx, network, address)
		if err != nil {
			return err
		}
		p.in, p.out = conn, conn
		p.stop = func() { _ = conn.SetDeadline(time.Unix(1, 0)) }
		return nil
	}
	return p.startChild()
}

// startChild starts a process with pipes as its standard streams.
func (p *Peer) startChild() error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return err
	}
	defer theirOut.Close()
	p.cmd = shellCommand(p.Command)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, p.Stderr
	p.cmd.WaitDelay = time.Second // for processes that still write to Stderr
	if err := p.cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return err
	}
	cmd := p.cmd
	to, from, end, err := newPipes(in, out)
	if err != nil {
		killGroup(cmd)
		in.Close()
		out.Close()
		_ = p.wait() // the error only reports the kill
		return err
	}
	p.in, p.out = to, from
	p.stop = func() {
		killGroup(cmd)
		end()
	}
	return nil
}

// closeIn closes the input of the program.
func (p *Peer) closeIn() error {
	if half, ok := p.in.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return p.in.Close()
}
