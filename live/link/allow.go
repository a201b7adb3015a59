package link

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// allowed is the set of addresses that may be dialled.
type allowed struct {
	listed                        []string
	prefixes                      []netip.Prefix
	names                         []string
	loopback, private, local, any bool
}

// NotAllowedError is the error for an address that may not be dialled.
type NotAllowedError struct {
	Address string
	Allowed []string
}

func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("%s is no address to dial here: only %s (--allow-dial)", e.Address, strings.Join(e.Allowed, ", "))
}

// parseAllowed parses the entries of a list, or the defaults if list is empty. The defaults exclude link-local
// addresses, at which clouds serve metadata.
func parseAllowed(list []string) (*allowed, error) {
	if len(list) == 0 {
		list = []string{"loopback", "private", "local"}
	}
	a := &allowed{listed: list}
	for _, entry := range list {
		switch entry {
		case "loopback":
			a.loopback = true
		case "private":
			a.private = true
		case "local":
			a.local = true
		case "any":
			a.any = true
		default:
			if err := a.addEntry(entry); err != nil {
				return nil, err
			}
		}
	}
	return a, nil
}

func (a *allowed) addEntry(entry string) error {
	if p, err := netip.ParsePrefix(entry); err == nil {
		a.prefixes = append(a.prefixes, p.Masked())
		return nil
	}
	if ip, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		a.prefixes = append(a.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
		return nil
	}
	numbers := strings.Trim(entry, "0123456789.") == ""
	if numbers || strings.ContainsAny(entry, "/:*@") {
		return excerpt.Errorf("address to dial %q: must be a network as 10.0.0.0/8, an address, the name of a host, or one of loopback, private, local, any", entry)
	}
	a.names = append(a.names, strings.ToLower(entry))
	return nil
}

// hasName reports whether a host is allowed by its name.
func (a *allowed) hasName(host string) bool {
	return slices.Contains(a.names, strings.ToLower(host))
}

// checkAddress returns a NotAllowedError if the address, with a port, may not be dialled.
func (a *allowed) checkAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if a.has(at.Addr().Unmap().WithZone("")) {
		return nil
	}
	return &NotAllowedError{address, a.listed}
}

func (a *allowed) has(ip netip.Addr) bool {
	shared := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) // carriers and pods of some clusters use this range
	switch {
	case a.any,
		// A dial of the unspecified address reaches this machine.
		a.loopback && (ip.IsLoopback() || ip.IsUnspecified()),
		a.private && (ip.IsPrivate() || shared.Contains(ip)):
		return true
	}
	if slices.ContainsFunc(a.prefixes, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return true
	}
	return a.local && !ip.IsLinkLocalUnicast() && isOwn(ip)
}

// isOwn reports whether an address belongs to this machine.
func isOwn(ip netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(n net.Addr) bool {
		own, ok := n.(*net.IPNet)
		return ok && own.IP.Equal(ip.AsSlice())
	})
}
