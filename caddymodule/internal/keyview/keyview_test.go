package keyview

import (
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestUnknownSpending shows a key although what it has spent is not known.
func TestUnknownSpending(t *testing.T) {
	k := domain.Key{ID: "k", KeyLimits: domain.KeyLimits{Limit: new(5.0)}}
	if shown := Of(k, nil, time.Now()); shown.ID != "k" || *shown.Limit != 5 || shown.LimitRemaining != nil {
		t.Errorf("got %+v, want nothing that remains", shown)
	}
	if shown := Of(k, Spent{"k": {0, 0, 0, 6}}, time.Now()); shown.Usage != 6 || *shown.LimitRemaining != 0 {
		t.Errorf("got %+v, want a usage of 6 and nothing left", shown)
	}
}
