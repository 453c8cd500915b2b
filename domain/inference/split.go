package inference

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/caddy-presets/caddy-presets/domain"
)

// stickyID decides the version of a split. Requests with the same id get the same version.
// Ids of different kinds are never equal.
type stickyID struct {
	kind byte
	id   string
}

// newStickyID returns the id of a session, else of a key, else a new one.
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

// pickVersion returns the version that the target of a label gives to an id. Each version
// of a split gets a share of the ids in proportion to its weight.
//
// It uses weighted rendezvous hashing. Each version has a score for the id that depends
// only on its own weight, and the best score wins. So a change of weights moves few ids,
// and servers need to agree on the weights alone.
func pickVersion(t domain.Target, presetID, label string, id stickyID) int {
	if t.Split == nil {
		return t.Version
	}
	common := sha256.Sum256([]byte(presetID + "\x00" + label + "\x00" + string(id.kind) + id.id))
	best, chosen := math.Inf(1), 0
	for _, share := range t.Split {
		// The score is an exponentially distributed time at a rate of the weight. Each
		// version comes first in proportion to its rate, and never at a rate of 0.
		hash := sha256.Sum256(binary.BigEndian.AppendUint64(common[:], uint64(share.Version)))
		uniform := (float64(binary.BigEndian.Uint64(hash[:])>>11) + 0.5) / (1 << 53) // between 0 and 1
		if time := -math.Log(uniform) / float64(share.Weight); time < best {
			best, chosen = time, share.Version
		}
	}
	return chosen
}
