package records

import (
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// replayMargin is how long a replay is kept after it expires. The clocks of other machines
// may differ.
const replayMargin = time.Hour

// Replay implements domain.Reader.
func (r *Reader) Replay(id domain.ReplayID) (domain.Replay, error) {
	replay, err := load(r, ReplayKey(id), decodeReplay)
	replay.ID = id
	return replay, err
}

// PutReplay implements domain.Tx. The record is kept for replayMargin after the replay
// expires, and for replayMargin from now at least.
func (t *Tx) PutReplay(r domain.Replay) error {
	k := ReplayKey(r.ID)
	record, err := encodeReplay(k, r)
	if err := t.write(k, record, err); err != nil {
		return err
	}
	end := r.ExpiresAt
	if now := time.Now(); end.Before(now) {
		end = now
	}
	t.stage.expire(k, end.Add(replayMargin))
	return nil
}
