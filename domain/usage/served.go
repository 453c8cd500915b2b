package usage

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// ServedPreset names a preset with served versions.
type ServedPreset struct{ WorkspaceID, Slug string }

// servedChunk is how many domain.Served are put in one change. They keep
// domain.MaxChangeSize.
const servedChunk = 16

// RecordServed records when versions of presets were last served. Earlier hours than the
// stored ones change nothing. Presets that do not exist are left out. A client changes
// nothing here, so there is no audit record.
func RecordServed(ctx context.Context, store domain.Store, served map[ServedPreset]domain.Served) error {
	for presets := range slices.Chunk(slices.Collect(maps.Keys(served)), servedChunk) {
		err := store.Update(ctx, func(tx domain.Tx) error {
			for _, of := range presets {
				p, _, err := tx.PresetJSON(of.WorkspaceID, of.Slug)
				if errors.Is(err, domain.ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				stored, err := tx.Served(of.WorkspaceID, of.Slug)
				if err != nil {
					return err
				}
				all, changed := stored.Add(served[of], p)
				if !changed {
					continue
				}
				err = tx.PutServed(of.WorkspaceID, of.Slug, all)
				if err != nil && !errors.Is(err, domain.ErrNotFound) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
