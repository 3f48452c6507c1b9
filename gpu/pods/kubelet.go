//go:build pod_resources

package pods

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Bounds of a reply, in bytes. A device takes about 100 of them, so that the
// largest reply is one of some 40,000 devices of all kinds.
const (
	maxReplyBytes  = 4 << 20
	maxHeaderBytes = 64 << 10
)

// newLister returns what asks the kubelet behind the socket of o.
func newLister(o Options) (lister, error) {
	return reader(o, func(ctx context.Context) (*podresources.ListPodResourcesResponse, error) { return list(ctx, o.Socket) }), nil
}

// reader returns what reads the replies to ask.
func reader(o Options, ask func(context.Context) (*podresources.ListPodResourcesResponse, error)) lister {
	return func(ctx context.Context) ([]Assignment, string, error) {
		reply, err := ask(ctx)
		if err != nil {
			return nil, "", err
		}
		return assignmentsIn(reply, o.Resources, o.Secrets)
	}
}

// list asks the kubelet behind a socket for the devices of all containers. Each
// question has a connection of its own: there is nothing to keep alive, and a
// kubelet that restarts is asked again without the pauses that a client takes.
func list(ctx context.Context, socket string) (*podresources.ListPodResourcesResponse, error) {
	var noConnection atomic.Pointer[error]
	conn, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
			if err != nil {
				noConnection.Store(&err)
			}
			return c, err
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the file system says who may ask
		grpc.WithAuthority("localhost"),
		grpc.WithDisableRetry(),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReplyBytes)),
	)
	if err != nil {
		return nil, err
	}
	reply, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if closed := conn.Close(); err == nil && closed != nil {
		err = closed
	}
	if why := noConnection.Load(); err != nil && why != nil {
		err = *why // the client keeps only its text
	}
	return reply, err
}

// stateOf returns the state that follows from a failed question.
func stateOf(err error) State {
	code := status.Code(err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, fs.ErrPermission), code == codes.PermissionDenied, code == codes.Unauthenticated:
		return StateDenied
	case network, code == codes.Unavailable, code == codes.DeadlineExceeded:
		return StateUnreachable
	}
	return StateFailed
}
