package stack

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/replay-llm/replay/internal/excerpt"
)

// rootUser is the user that etcd requires before it enables authentication.
const rootUser = "root"

// requirePassword makes etcd require the same password as NATS. The data of a server with a password can be used only
// with that password.
func requirePassword(ctx context.Context, server *embed.Etcd, o Options) error {
	c := v3client.New(server.Server)
	defer c.Close()
	if server.Server.AuthStore().IsAuthEnabled() {
		if o.Username == "" {
			return errors.New("the data is that of servers with a password: use --nats-username here, too")
		}
		if _, err := server.Server.AuthStore().CheckPassword(o.Username, o.Password); err != nil {
			return excerpt.Errorf("the data is that of servers that ask for another name or password than %q has: %w", o.Username, err)
		}
		return nil
	}
	if o.Username == "" {
		return nil
	}
	users := []string{rootUser}
	if o.Username != rootUser {
		users = append(users, o.Username)
	}
	for _, user := range users {
		if _, err := c.UserAdd(ctx, user, o.Password); err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
			return excerpt.Errorf("user %q: %w", user, err)
		}
		if _, err := c.UserGrantRole(ctx, user, rootUser); err != nil {
			return excerpt.Errorf("user %q: %w", user, err)
		}
	}
	_, err := c.AuthEnable(ctx)
	return err
}
