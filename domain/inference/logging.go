package inference

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Logging is what a workspace says of the content of its requests.
type Logging struct {
	// Logs tells that content is logged, and Broadcasts that it is in traces.
	Logs, Broadcasts bool

	rate float64
	keys map[string]bool // ids, and hashes in hexadecimal digits; nil for all keys
}

// Logging returns what the workspace that who acts in says, nil if its content stays where it is. It is cached.
func (r *Resolver) Logging(ctx context.Context, who domain.Principal) (*Logging, error) {
	defaults, _, err := r.workspace(ctx, who)
	if err != nil {
		return nil, err
	}
	return defaults.logging, nil
}

// newLogging returns what w says, and the memory that it takes, about, in bytes.
func newLogging(w *domain.Workspace) (l *Logging, cost int) {
	if !w.IsObservabilityIOLoggingEnabled && !w.IsObservabilityBroadcastEnabled || w.IOLoggingSamplingRate <= 0 {
		return nil, 0
	}
	l = &Logging{Logs: w.IsObservabilityIOLoggingEnabled, Broadcasts: w.IsObservabilityBroadcastEnabled, rate: w.IOLoggingSamplingRate}
	ids := jsontext.Value(w.IOLoggingAPIKeyIDs)
	if ids.Kind() != '[' { // null
		return l, 0
	}
	l.keys = make(map[string]bool)
	for _, id := range rawjson.Items(ids) {
		text, ok := rawjson.Text(id)
		if !ok {
			text = string(id) // a number
		}
		l.keys[text] = true
		cost += len(text) + 64
	}
	return l, cost
}

// Takes reports whether a request of who is logged: at random, or by its session, unless that is empty. All
// requests of a session are logged or none, on every node and while the rate stays.
func (l *Logging) Takes(who domain.Principal, session string) bool {
	if l.keys != nil && !l.keys[who.KeyID] && !l.keys[hex.EncodeToString(who.Hash[:])] {
		return false
	}
	if l.rate >= 1 {
		return true
	}
	share := rand.Float64() //nolint:gosec // a sample is no secret
	if session != "" {
		sum := sha256.Sum256([]byte(session))
		share = float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
	}
	return share < l.rate
}
