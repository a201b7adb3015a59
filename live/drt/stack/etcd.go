package stack

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// etcdServer is a running etcd with one member.
type etcdServer struct {
	server *embed.Etcd
	broken *breakage
	mu     sync.Mutex
	serve  []*grpc.Server // the gRPC servers of the clients
}

// startEtcd starts etcd and returns the port that it listens on.
func startEtcd(ctx context.Context, o Options, dir string, durable bool) (*etcdServer, int, error) {
	e := &etcdServer{broken: newBreakage(dir)}
	config := etcdConfig(o, dir, durable)
	config.ServiceRegister = e.noteServer
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(e.broken.logger())
	server, err := e.broken.guardStart(func() (*embed.Etcd, error) { return embed.StartEtcd(config) })
	if err != nil {
		return nil, 0, fmt.Errorf("etcd server on %s: %w", config.ListenClientUrls[0].Host, err)
	}
	e.server = server
	select {
	case <-e.broken.happened:
		err = e.broken.err
	case <-server.Server.ReadyNotify():
		if err = requirePassword(ctx, server, o); err == nil {
			// With port 0, the advertised URL has port 0, too. The listener has the real port.
			return e, server.Clients[0].Addr().(*net.TCPAddr).Port, nil
		}
	case err = <-server.Err():
	case <-time.After(startLimit):
		err = fmt.Errorf("not ready after %v", startLimit)
	case <-ctx.Done():
		err = fmt.Errorf("not ready: %w", context.Cause(ctx))
	}
	e.stopServer()
	return nil, 0, fmt.Errorf("etcd server: %w", err)
}

func etcdConfig(o Options, dir string, durable bool) *embed.Config {
	c := embed.NewConfig()
	c.Dir, c.Name = dir, "replay"
	scheme := "http"
	if o.Cert != "" {
		scheme = "https"
		c.ClientTLSInfo = transport.TLSInfo{CertFile: o.Cert, KeyFile: o.Key, TrustedCAFile: o.CA, ClientCertAuth: o.CA != ""}
	}
	client := url.URL{Scheme: scheme, Host: net.JoinHostPort(o.Host, strconv.Itoa(o.EtcdPort))}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"} // no other member joins
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.UnsafeNoFsync = !durable
	c.AuthTokenTTL = 24 * 60 * 60 // in seconds; clients that are idle for longer authenticate again
	if !durable {
		// The election timeout can be short, because no other member votes.
		c.TickMs, c.ElectionMs = 20, 200
	}
	return c
}

// noteServer keeps a gRPC server, so that stopServer can stop it.
func (e *etcdServer) noteServer(s *grpc.Server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serve = append(e.serve, s)
}

// stopLimit is the time limit for the shutdown of a broken server, which might hang.
const stopLimit = 2 * time.Second

// stopServer stops the server. stopServer disconnects the clients first, because etcd would wait for their streams
// for seconds.
func (e *etcdServer) stopServer() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.mu.Lock()
		for _, s := range e.serve {
			s.Stop()
		}
		e.mu.Unlock()
		e.server.Close()
	}()
	select {
	case <-ended:
		return
	case <-e.broken.happened:
	}
	select {
	case <-ended:
	case <-time.After(stopLimit):
	}
}
