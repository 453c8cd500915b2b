package transfer

import (
	"crypto/sha256"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Magic has the first bytes of every export, in all versions of the format.
const Magic = `{"export":`

// taken has the ids, slugs and hashes of the objects of a file so far. Long ones are in it as
// a half of their SHA-256.
type taken struct {
	workspaces, keys map[string]bool
	slugs            map[half]bool // of workspaces
	presetSlugs      map[half]bool // of the workspace above
	presetIDs        map[half]bool
	hashes           map[domain.KeyHash]bool
}

type half [sha256.Size / 2]byte

func halfOf(text string) half {
	sum := sha256.Sum256([]byte(text))
	return half(sum[:])
}

func newTaken() *taken {
	return &taken{
		workspaces: map[string]bool{}, keys: map[string]bool{}, slugs: map[half]bool{},
		presetIDs: map[half]bool{}, hashes: map[domain.KeyHash]bool{},
	}
}

// take adds the names of a line's object. It returns errTaken if one is taken.
func (t *taken) take(l line) error {
	switch {
	case l.Workspace != nil:
		t.presetSlugs = map[half]bool{}
		if isTaken(t.workspaces, l.Workspace.ID) || isTaken(t.slugs, halfOf(l.Workspace.Slug)) {
			return errTaken
		}
	case l.Preset != nil:
		if isTaken(t.presetIDs, halfOf(l.Preset.ID)) || isTaken(t.presetSlugs, halfOf(l.Preset.Slug)) {
			return errTaken
		}
	case l.Key != nil:
		if isTaken(t.keys, l.Key.ID) || isTaken(t.hashes, l.Key.Hash) {
			return errTaken
		}
	}
	return nil
}

func isTaken[K comparable](all map[K]bool, name K) bool {
	was := all[name]
	all[name] = true
	return was
}
