package drt

import "net"

// Active returns the number of requests that are being answered.
func (s *Serving) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active)
}

// PatientConn returns how callers read from c.
func PatientConn(c net.Conn) net.Conn { return patientConn{c} }

// HoldUp waits for a call that awaits its worker. It keeps the runtime from reading workers that call home
// until the returned function is called, as in a process without a processor. It returns nil when no call waits
// before over is closed.
func (rt *Runtime) HoldUp(over <-chan struct{}) (release func()) {
	for {
		rt.homes.mu.Lock()
		if len(rt.homes.waiting) > 0 {
			return rt.homes.mu.Unlock
		}
		rt.homes.mu.Unlock()
		select {
		case <-over:
			return nil
		default:
		}
	}
}

// Lines returns the number of connections for several response streams that the runtime has.
func (rt *Runtime) Lines() int {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.homes.mu.Lock()
	defer rt.homes.mu.Unlock()
	return len(rt.lines) + len(rt.homes.lines)
}

// CutLines ends the connections of workers for several response streams.
func (rt *Runtime) CutLines() {
	rt.homes.mu.Lock()
	defer rt.homes.mu.Unlock()
	for line := range rt.homes.lines {
		line.Close()
	}
}
