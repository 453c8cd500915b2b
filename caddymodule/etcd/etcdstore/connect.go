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
	_ "google.golang.org/grpc/balancer/leastrequest" // for serviceConfig
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caddy-presets/caddy-presets/domain"
)

// serviceConfig sends each request to the member with the fewest requests in flight. A
// member that hangs keeps its connections for seconds. Its requests stay in flight until
// Options.RequestTimeout, even if another member has answered, so that most others avoid it.
// With round robin one in three waits for it.
const serviceConfig = `{"loadBalancingConfig":[{"least_request_experimental":{"choiceCount":10}}]}`

// connect returns a client. With a user it waits until the cluster answers. The error has
// domain.ErrUnavailable in its chain if trying again may help. A user that is refused now
// may be accepted later.
func connect(o Options) (*clientv3.Client, *dialErrors, error) {
	dialErrors := new(dialErrors)
	options := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(dialErrors.intercept, o.renewToken),
		grpc.WithDisableServiceConfig(), // etcd's client sets round robin
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
		MaxUnaryRetries: 2, // a second one with a new token; this package retries by itself
		DialOptions:     options,
	})
	if err != nil && len(o.Endpoints) > 0 {
		err = fmt.Errorf("%w: etcd: %w", domain.ErrUnavailable, dialErrors.explain(err))
	}
	return client, dialErrors, err
}

// renewToken gets a new token from etcd 3.4 after a restart. The client sends its old token
// with the request for a new one. But etcd 3.4 refuses every request with an unknown token.
// So a second client, without a token, asks.
func (o Options) renewToken(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
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

// A connection without traffic is pinged after keepAliveTime, the shortest that gRPC allows,
// and closed if no answer comes.
const (
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 2 * time.Second
)

// clientLogger returns the logger of etcd's client. It passes one line a minute of each kind:
// the client logs each failed attempt.
func clientLogger(logger *zap.Logger) *zap.Logger {
	return logger.Named("client").WithOptions(zap.IncreaseLevel(zap.WarnLevel), zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Minute, 1, 0)
	}))
}

// dialErrors keeps the last error of connecting. etcd's client only returns that the time
// is over.
type dialErrors struct{ last atomic.Pointer[error] }

func (d *dialErrors) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if code := status.Code(err); ctx.Err() == nil && (code == codes.Canceled || code == codes.DeadlineExceeded) {
		// The answer of a member or a proxy, which may have made the change. The
		// client would send it again.
		return status.Error(codes.Unavailable, status.Convert(err).Message())
	}
	switch s := status.Convert(err); {
	case s.Code() == codes.DeadlineExceeded && strings.Contains(s.Message(), "balancer error"):
		cause := errors.New(s.Message())
		d.last.Store(&cause)
	case s.Code() != codes.DeadlineExceeded && s.Code() != codes.Canceled && d.last.Load() != nil:
		d.last.Store(nil) // it is connected
	}
	return err
}

// explain returns the error of connecting in place of a timeout, if there is one.
func (d *dialErrors) explain(err error) error {
	if last := d.last.Load(); last != nil && isTimeout(err) {
		return *last
	}
	return err
}

// isTimeout reports whether err only says that the time is over.
func isTimeout(err error) bool {
	return status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}
