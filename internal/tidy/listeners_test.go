package tidy

import (
	"go/ast"
	"strings"
	"testing"
)

// Only internal/listen opens listeners, because it rejects listeners outside loopback without credentials. etcd and
// NATS open their listeners themselves. live/drt/stack calls internal/listen before that.
func TestListenersAreOpenedInOnePlace(t *testing.T) {
	opens := map[string]bool{
		"net.Listen": true, "net.ListenTCP": true, "net.ListenUnix": true, "net.ListenUDP": true, "net.ListenPacket": true, "net.ListenConfig": true,
		"tls.Listen": true, "http.ListenAndServe": true, "http.ListenAndServeTLS": true,
	}
	found := 0
	for _, s := range parseAll(t) {
		if strings.HasSuffix(s.path, "_test.go") || strings.HasPrefix(s.path, "tools/") || strings.Contains(s.path, "test/") || strings.HasPrefix(s.path, "live/tutorial/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			e, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := e.X.(*ast.Ident)
			switch {
			case !ok || !opens[x.Name+"."+e.Sel.Name]:
			case s.path == "internal/listen/listen.go":
				found++
			default:
				t.Errorf("%s: opens a listener: use internal/listen", s.at(e))
			}
			return true
		})
	}
	if found != 1 {
		t.Errorf("internal/listen opens listeners at %d places, want 1", found)
	}
}
