package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestRequestEnds uses a cluster that refuses each request at once. The store tries again
// until the timeout and then stops.
func TestRequestEnds(t *testing.T) {
	s := &Store{timeout: 2*retryPause + retryPause/2, dialErrors: new(dialErrors)}
	ended := make(chan error, 1)
	attempts := 0
	go func() {
		_, err := request(t.Context(), s, func(context.Context) (int, error) {
			attempts++
			return 0, status.Error(codes.Unavailable, "no leader")
		})
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, domain.ErrUnavailable) || attempts < 2 {
			t.Errorf("got error %v after %d attempts, want that it is unavailable after some", err, attempts)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a request that cannot be answered does not end")
	}
}
