package drt

import "net"

// Active returns the number of requests in flight.
func (s *Serving) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active)
}

// PatientConn returns a connection that reads like callers do.
func PatientConn(c net.Conn) net.Conn { return patientConn{c} }

// HoldUp waits until a call waits for its worker. Then HoldUp keeps the runtime from reading workers that call home
// until the caller calls release. HoldUp returns nil if no call waits before over is closed.
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

// Lines returns the number of shared connections of the runtime.
func (rt *Runtime) Lines() int {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.homes.mu.Lock()
	defer rt.homes.mu.Unlock()
	return len(rt.lines) + len(rt.homes.lines)
}

// CutLines closes the shared connections from workers.
func (rt *Runtime) CutLines() {
	rt.homes.mu.Lock()
	defer rt.homes.mu.Unlock()
	for line := range rt.homes.lines {
		line.Close()
	}
}
