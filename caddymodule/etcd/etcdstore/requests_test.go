package etcdstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
