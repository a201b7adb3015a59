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
