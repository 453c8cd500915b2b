package domain

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Served is the hour of the last inference request to each version of a preset, in hours
// since 1970. Its keys are the numbers of versions. Versions that were never served are not
// in it. A request counts from when it goes to the gateway, whatever the answer.
type Served map[int]int64

// MaxServed bounds the versions of a Served. Those that were served last stay.
const MaxServed = 10_000

// ServedHour returns the hour of a time, as Served has it.
func ServedHour(t time.Time) int64 { return max(t.Unix(), 0) / 3600 }

// add returns s with the later hours of other, and whether any is later. It may change s.
func (s Served) add(other Served) (Served, bool) {
	changed := false
	for n, hour := range other {
		if earlier, ok := s[n]; !ok || earlier < hour {
			if s == nil {
				s = make(Served)
			}
			s[n], changed = hour, true
		}
	}
	return s, changed
}

// limited returns s without the versions that p does not have, and at most MaxServed.
func (s Served) limited(p PresetState) Served {
	maps.DeleteFunc(s, func(n int, _ int64) bool { return !p.Has(n) })
	if len(s) > MaxServed {
		byHour := slices.SortedFunc(maps.Keys(s), func(a, b int) int { return cmp.Or(cmp.Compare(s[a], s[b]), cmp.Compare(a, b)) })
		for _, n := range byHour[:len(s)-MaxServed] {
			delete(s, n)
		}
	}
	return s
}

// lastServed is the last member of a version as clients see it.
const lastServed = `,"last_served_at":`

// appendTo appends the member of version n.
func (s Served) appendTo(object []byte, n int) []byte {
	object = append(object, lastServed...)
	hour, ok := s[n]
	if !ok {
		return append(object, "null"...)
	}
	return time.Unix(hour*3600, 0).UTC().AppendFormat(object, strconv.Quote(time.RFC3339))
}

// presetTag is Tag of a preset as clients see it, with its designated version. It leaves out
// last_served_at: no change of the preset changes that, so no If-Match must fail for it.
func presetTag(preset []byte) string {
	start := bytes.LastIndex(preset, []byte(lastServed))
	if start < 0 {
		return Tag(preset)
	}
	length := bytes.IndexByte(preset[start:], '}')
	sum := sha256.New()
	sum.Write(preset[:start])
	sum.Write(preset[start+length:])
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// ServedPreset names a preset with served versions.
type ServedPreset struct{ WorkspaceID, Slug string }

// servedChunk is how many Served are put in one change. They keep MaxChangeSize.
const servedChunk = 16

// RecordServed records when versions of presets were last served. Earlier hours than the
// stored ones change nothing. Presets that do not exist are left out. A client changes
// nothing here, so there is no audit record.
func RecordServed(ctx context.Context, store Store, served map[ServedPreset]Served) error {
	for presets := range slices.Chunk(slices.Collect(maps.Keys(served)), servedChunk) {
		err := store.Update(ctx, func(tx Tx) error {
			for _, of := range presets {
				p, _, err := tx.PresetJSON(of.WorkspaceID, of.Slug)
				if errors.Is(err, ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				stored, err := tx.Served(of.WorkspaceID, of.Slug)
				if err != nil {
					return err
				}
				all, changed := stored.add(served[of])
				if !changed {
					continue
				}
				err = tx.PutServed(of.WorkspaceID, of.Slug, all.limited(p))
				if err != nil && !errors.Is(err, ErrNotFound) {
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
