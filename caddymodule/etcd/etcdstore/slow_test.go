package etcdstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestSlowAnswers uses a distant cluster: each answer takes longer than firstPatience.
// Changes are made and acknowledged once, and leave one lease.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	members := cluster(t, 1)
	p := newProxy(t, members[0].address)
	s := open(t, Options{Endpoints: []string{p.address}, MaxStaleness: time.Minute})
	other := open(t, Options{Endpoints: addresses(members)})
	w := newID()
	put(t, s, w, "p")
	p.set(func() { p.delay = 600 * time.Millisecond })
	for i := range 2 {
		if _, err := add(t.Context(), s, w, "p", fmt.Sprint(i)); err != nil {
			t.Errorf("change %d: got error %v, want none", i, err)
		}
		kept := domain.Replay{ID: domain.ReplayID{byte(i)}, ExpiresAt: time.Now().Add(time.Hour), Answer: []byte{1}}
		if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutReplay(kept) }); err != nil {
			t.Errorf("answer %d: got error %v, want none", i, err)
		}
	}
	if got, want := versions(t, other, w, "p"), []string{"0", "1"}; !slices.Equal(got, want) {
		t.Errorf("got versions %q, want %q", got, want)
	}
	leases, err := client(t, members[0].address).Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(leases.Leases); got > 2 { // ten minutes may end in between
		t.Errorf("there are %d leases, want one that the answers share", got)
	}
}

// TestSlowWatch restarts a watch while each answer takes longer than nextAttempt. Callers
// that wait for its events do not restart it again.
func TestSlowWatch(t *testing.T) {
	t.Parallel()
	p := newProxy(t, sharedAddress(t))
	s, other := open(t, Options{Endpoints: []string{p.address}, MaxStaleness: time.Hour}), open(t, Options{})
	w := newID()
	p.set(func() { p.delay = 600 * time.Millisecond })
	s.watcher.mu.Lock()
	s.watcher.restart()
	s.watcher.mu.Unlock()
	put(t, other, w, "p")
	if err := s.await(t.Context(), other.model.Latest().Revision); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	if n := s.Status().Restarts; n > 4 {
		t.Errorf("the watch began %d times again, want it to have the time", n)
	}
}

// TestSlowReachable uses a node that was suspended for longer than MaxStaleness. Its
// requests take longer than firstPatience, and its changes wait for the answer.
func TestSlowReachable(t *testing.T) {
	t.Parallel()
	p := newProxy(t, sharedAddress(t))
	s := open(t, Options{Endpoints: []string{p.address}, MaxStaleness: time.Hour})
	suspended := newWatcher(s, s.watcher.at.Load(), time.Now().Add(-time.Hour), time.Minute)
	p.set(func() { p.delay = 600 * time.Millisecond })
	if err := suspended.checkReachable(); err != nil {
		t.Errorf("got error %v, want none", err)
	}
}

// TestDeliveredTwice delivers a change twice. It is applied once, and counts as made, also if another
// node makes a change in between or a busy etcd refuses the second delivery.
func TestDeliveredTwice(t *testing.T) {
	for name, refusal := range map[string]error{"with another change": nil, "refused": rpctypes.ErrGRPCRequestTooManyRequests} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRetrier(t, sharedAddress(t))
			s := open(t, Options{Endpoints: []string{r.address}, MaxStaleness: time.Minute})
			other := open(t, Options{})
			w := newID()
			put(t, other, w, "p")
			if err := s.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.between.Store(new(func() error {
				_, err := add(context.Background(), other, w, "p", "other")
				return cmp.Or(err, refusal)
			}))
			if _, err := add(t.Context(), s, w, "p", "this"); err != nil {
				t.Fatal(err)
			}
			if got, want := versions(t, other, w, "p"), []string{"this", "other"}; !slices.Equal(got, want) {
				t.Errorf("got versions %q, want each once: %q", got, want)
			}
		})
	}
}

// retrier is a gRPC proxy that counts calls. It can deliver a change twice, and it can hang.
type retrier struct {
	address  string
	to       *grpc.ClientConn
	requests atomic.Int64 // calls except watches
	watches  atomic.Int64 // that have not ended
	hangs    atomic.Bool  // new calls get no answer
	// between is called once, between the two deliveries of the next change. Its error
	// replaces the answer to the second delivery.
	between atomic.Pointer[func() error]
	before  atomic.Pointer[func()] // is called before each change
}

func newRetrier(t *testing.T, to string) *retrier {
	t.Helper()
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &retrier{address: listener.Addr().String(), to: conn}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(r.forward))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		conn.Close()
	})
	return r
}

// forward forwards any call.
func (r *retrier) forward(_ any, from grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(from)
	if method == etcdserverpb.Watch_Watch_FullMethodName {
		r.watches.Add(1)
		defer r.watches.Add(-1)
	} else {
		r.requests.Add(1)
	}
	if r.hangs.Load() {
		<-from.Context().Done()
		return from.Context().Err()
	}
	if method == etcdserverpb.KV_Txn_FullMethodName {
		return r.forwardTxn(method, from)
	}
	ctx, cancel := context.WithCancel(from.Context())
	defer cancel()
	to, err := r.to.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return err
	}
	go func() {
		for {
			var message []byte
			if err := from.RecvMsg(&message); err != nil {
				_ = to.CloseSend()
				return
			}
			if to.SendMsg(message) != nil {
				return
			}
		}
	}()
	for {
		var message []byte
		switch err := to.RecvMsg(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := from.SendMsg(message); err != nil {
			return err
		}
	}
}

func (r *retrier) forwardTxn(method string, from grpc.ServerStream) error {
	var request, response []byte
	if err := from.RecvMsg(&request); err != nil {
		return err
	}
	var txn etcdserverpb.TxnRequest
	if err := proto.Unmarshal(request, &txn); err != nil {
		return err
	}
	invoke := func() error {
		return r.to.Invoke(from.Context(), method, request, &response, grpc.ForceCodec(rawCodec{}))
	}
	if before := r.before.Load(); before != nil && len(txn.Compare) > 0 {
		(*before)()
	}
	err := invoke()
	if len(txn.Compare) > 0 {
		if between := r.between.Swap(nil); between != nil {
			if err = (*between)(); err == nil {
				err = invoke()
			}
		}
	}
	if err != nil {
		return err
	}
	return from.SendMsg(response)
}

// rawCodec does not decode messages.
type rawCodec struct{}

func (rawCodec) Marshal(message any) ([]byte, error) {
	if p, ok := message.(*[]byte); ok {
		return *p, nil
	}
	return message.([]byte), nil
}

func (rawCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = bytes.Clone(data)
	return nil
}

func (rawCodec) Name() string { return "proto" }
