package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caddy-presets/caddy-presets/domain"
)

// connect returns a client. Only with a user it waits for the cluster. The error has
// domain.ErrUnavailable in its chain where later it may work, as it may when the cluster
// does not want that user now.
func connect(o Options) (*clientv3.Client, *trouble, error) {
	trouble := new(trouble)
	options := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(trouble.intercept, o.renew),
		grpc.WithDisableServiceConfig(), // etcd's, which says that members are asked in turn
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxPause},
			MinConnectTimeout: o.RequestTimeout,
		}),
	}
	if o.TLS != nil && o.TLS.ServerName != "" {
		options = append(options, grpc.WithAuthority(o.TLS.ServerName)) // else the endpoint's name is used
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: o.Endpoints, Username: o.Username, Password: o.Password, TLS: o.TLS,
		DialTimeout: o.RequestTimeout, DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout,
		PermitWithoutStream: true, Logger: clientLogger(o.Logger), MaxCallSendMsgSize: 2 * maxRequest,
		MaxUnaryRetries: 2, // one more with a new token: package etcd makes its own attempts
		DialOptions:     options,
	})
	if err != nil && len(o.Endpoints) > 0 {
		err = fmt.Errorf("%w: etcd: %w", domain.ErrUnavailable, trouble.explain(err))
	}
	return client, trouble, err
}

// renew gets a new token where the client cannot: it shows the former one when it asks for
// another, and etcd 3.4 refuses that as it does all else that has a token that it does not
// know, as after a restart. Another client, which has no token, asks then.
func (o Options) renew(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	answer, ok := reply.(*etcdserverpb.AuthenticateResponse)
	if !ok || o.Username == "" || !errors.Is(rpctypes.Error(err), rpctypes.ErrInvalidAuthToken) {
		return err
	}
	user, password := o.Username, o.Password
	o.Username, o.Password = "", ""
	client, _, err := connect(o)
	if err != nil {
		return err
	}
	defer client.Close()
	response, err := client.Authenticate(ctx, user, password)
	if err == nil {
		answer.Header, answer.Token = response.Header, response.Token
	}
	return err
}

// Of connections on which nothing comes it is asked after so long whether they work, and
// they are given up when there is no answer. gRPC does not allow to ask more often.
const (
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 2 * time.Second
)

// clientLogger is what etcd's client logs with: one line a minute of each kind, as it
// has one for each attempt that fails.
func clientLogger(logger *zap.Logger) *zap.Logger {
	return logger.Named("client").WithOptions(zap.IncreaseLevel(zap.WarnLevel), zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Minute, 1, 0)
	}))
}

// trouble is what keeps a client from connecting. etcd's own client says no more than that
// the time is over.
type trouble struct{ last atomic.Pointer[error] }

func (t *trouble) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if code := status.Code(err); ctx.Err() == nil && (code == codes.Canceled || code == codes.DeadlineExceeded) {
		// A member, or a proxy before it, says so of what it may have done. The client
		// would send that again, a change as well.
		return status.Error(codes.Unavailable, status.Convert(err).Message())
	}
	switch s := status.Convert(err); {
	case s.Code() == codes.DeadlineExceeded && strings.Contains(s.Message(), "balancer error"):
		cause := errors.New(s.Message())
		t.last.Store(&cause)
	case s.Code() != codes.DeadlineExceeded && s.Code() != codes.Canceled && t.last.Load() != nil:
		t.last.Store(nil) // it is connected
	}
	return err
}

// explain returns what is known of the cause of an error.
func (t *trouble) explain(err error) error {
	if last := t.last.Load(); last != nil && isTimeout(err) {
		return *last
	}
	return err
}

// isTimeout reports whether an error says no more than that the time is over.
func isTimeout(err error) bool {
	return status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}
