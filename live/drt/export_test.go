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
