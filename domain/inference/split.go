package inference

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
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

// versionOf returns the number of the version of p that a reference names. label is the
// label by which it names the version, or empty. A sticky id decides where a label has a
// split. A version that p does not have is NotFound.
func versionOf(ref reference.Ref, p *domain.Preset, id stickyID) (n int, label string, err error) {
	if ref.Pin == "" {
		return p.DesignatedVersion, "", nil
	}
	if n, err := strconv.Atoi(ref.Pin); err == nil && p.State().Has(n) && strconv.Itoa(n) == ref.Pin {
		return n, "", nil
	}
	if label, ok := p.Labels[ref.Pin]; ok { // never a number: CheckLabel
		return pickVersion(label, p.ID, ref.Pin, id), strings.Clone(ref.Pin), nil // the pin may be a part of a long text
	}
	return 0, "", &domain.Error{Kind: domain.NotFound, Code: domain.VersionNotFound, Message: "Preset version not found: " + ref.String()}
}
