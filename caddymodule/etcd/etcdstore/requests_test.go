package etcdstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestRequestEnds uses a cluster that refuses each request at once. The store tries again
// until the timeout and then stops.
func TestRequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{timeout: 2*retryPause + retryPause/2, dialErrors: new(dialErrors)}
		attempts, begun := 0, time.Now()
		_, err := request(t.Context(), s, func(context.Context) (int, error) {
			attempts++
			return 0, status.Error(codes.Unavailable, "no leader")
		})
		if !errors.Is(err, domain.ErrUnavailable) || attempts != 4 || time.Since(begun) != 3*retryPause {
			t.Errorf("got error %v after %d attempts and %v, want that it is unavailable after 4 and %v", err, attempts, time.Since(begun), 3*retryPause)
		}
	})
}

// TestTokenIsForgotten has a member that was restarted, and does not know the token any more.
// Another member accepts the request.
func TestTokenIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refusal := range []error{rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision} {
			s := &Store{timeout: 10 * nextAttempt, dialErrors: new(dialErrors)}
			attempts := 0
			result, err := request(t.Context(), s, func(context.Context) (string, error) {
				if attempts++; attempts == 1 {
					return "", refusal
				}
				return "answer", nil
			})
			if result != "answer" || err != nil {
				t.Errorf("%v: got %q, %v, want the other member's answer", refusal, result, err)
			}
		}
	})
}

// TestSlowAttemptGoesOn has one attempt without an answer. Another attempt's answer does not
// end it, so that its member has a request in flight. The end of the caller's context does
// not end it either. The timeout does.
func TestSlowAttemptGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{timeout: 10 * nextAttempt, dialErrors: new(dialErrors)}
		ctx, cancel := context.WithCancel(t.Context())
		attempts := make(chan context.Context, 2)
		result, err := request(ctx, s, func(ctx context.Context) (string, error) {
			if attempts <- ctx; len(attempts) > 1 {
				return "answer", nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
		if result != "answer" || err != nil {
			t.Fatalf("got %q, %v", result, err)
		}
		cancel()
		synctest.Wait()
		slow := <-attempts
		if slow.Err() != nil {
			t.Error("the slow attempt has ended with the call")
		}
		time.Sleep(s.timeout)
		synctest.Wait()
		if slow.Err() == nil {
			t.Error("the slow attempt goes on after the timeout")
		}
	})
}

// TestRequestIsAbandoned has a caller that gives up before any answer. All attempts end.
func TestRequestIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{timeout: time.Hour, dialErrors: new(dialErrors)}
		ctx, cancel := context.WithTimeout(t.Context(), 3*nextAttempt)
		defer cancel()
		_, err := request(ctx, s, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("got error %v, want that of the caller's context", err)
		}
	})
}
