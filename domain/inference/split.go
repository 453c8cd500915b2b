package inference

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/caddy-presets/caddy-presets/domain"
)

// stickyID is what a split goes by: requests that have it in common are served
// the same version. Ids of different kinds never meet.
type stickyID struct {
	kind byte
	id   string
}

// newStickyID returns that of a session, else of a key, else one of its own.
func newStickyID(session, keyID string) stickyID {
	switch {
	case session != "":
		return stickyID{'s', session}
	case keyID != "":
		return stickyID{'k', keyID}
	default:
		return stickyID{'r', rand.Text()}
	}
}

// pickVersion returns the version that t, which a label of a preset stands for, gives
// to an id. Of many ids each version of a split gets a share as large as its
// weight is of all weights.
//
// The version is chosen by weighted rendezvous hashing: each has a score for the
// id that depends on nothing but its own weight, and the best wins. When weights
// change, only ids move whose version lost weight or is another's now, and no
// two servers need to agree on anything but the weights.
func pickVersion(t domain.Target, presetID, label string, id stickyID) int {
	if t.Split == nil {
		return t.Version
	}
	common := sha256.Sum256([]byte(presetID + "\x00" + label + "\x00" + string(id.kind) + id.id))
	best, chosen := math.Inf(1), 0
	for _, share := range t.Split {
		// The time of the first event that comes at a rate of the weight: each
		// of several comes first as often as its part of all rates, and never
		// at a rate of 0.
		hash := sha256.Sum256(binary.BigEndian.AppendUint64(common[:], uint64(share.Version)))
		uniform := (float64(binary.BigEndian.Uint64(hash[:])>>11) + 0.5) / (1 << 53) // between 0 and 1
		if time := -math.Log(uniform) / float64(share.Weight); time < best {
			best, chosen = time, share.Version
		}
	}
	return chosen
}
