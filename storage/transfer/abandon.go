package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// ErrNone is returned by Abandon for a store without an unfinished import.
var ErrNone = errors.New("no import into the store is unfinished")

// Abandoned describes an import that was given up, and what is missing. The audit trail,
// which comes first, tells that: presets and keys that it knows and the store does not have.
type Abandoned struct {
	// Lines is how many lines of the file were imported.
	Lines int `json:"lines"`
	// TrailMayEnd is set if no line behind the audit trail was imported. So the trail may lack
	// its end, and Missing does not count what that end says.
	TrailMayEnd bool    `json:"audit_may_end_early"`
	Missing     Missing `json:"missing"`
	// Partial is the preset that was being imported, as workspace/preset, or empty. It may
	// lack versions and labels, and is archived.
	Partial string `json:"partial_preset"`
}

// Missing counts objects that were not imported, and names the first of them.
type Missing struct {
	Workspaces     int      `json:"workspaces"`
	WorkspaceSlugs []string `json:"workspace_slugs"` // at most maxNamed
	Presets        int      `json:"presets"`
	PresetSlugs    []string `json:"preset_slugs"` // as workspace/preset, at most maxNamed
	Keys           int      `json:"keys"`
}

// maxNamed is how many objects of a kind Missing names.
const maxNamed = 10

// Abandon ends an unfinished import for good. The imported objects stay, and the store takes
// changes again. The audit trail gets a record. An import that is still running fails at its
// next batch. Without an unfinished import the error is ErrNone.
//
// Abandon reads the whole audit trail first. It needs memory for the workspaces and for the
// missing keys.
func Abandon(ctx context.Context, store domain.Store, service *domain.Service, w domain.Write) (a Abandoned, err error) {
	var m progress
	err = store.View(ctx, func(r domain.Reader) error {
		if m, err = unfinishedProgress(r); err != nil || m == (progress{}) {
			return err
		}
		a, err = lookForMissing(ctx, r, m)
		return err
	})
	if err == nil && m == (progress{}) {
		err = ErrNone
	}
	if err != nil {
		return Abandoned{}, err
	}
	object := domain.AuditObject{Kind: "store", ID: uuid.UUID(m.Header[:len(uuid.UUID{})]).String()}
	err = service.AbandonImport(ctx, w, object, func(tx domain.Tx) error {
		switch now, err := lastProgress(tx); {
		case err != nil:
			return err
		case now != m:
			return fmt.Errorf("%w: the import goes on; stop it first", ErrStore)
		}
		return cmp.Or(m.settle(tx, w.Who), m.forget(tx))
	})
	if err != nil {
		return Abandoned{}, err
	}
	return a, nil
}

// settle gives the preset that was being imported the labels whose changes were imported. A
// preset that takes several batches is stored without labels until the last one. Changes are
// imported label by label, in byte order. So only the last label may lack changes. It may name
// a pruned version, or be one label too many. Then one more change, by who, removes it.
func (m progress) settle(tx domain.Tx, who domain.Principal) error {
	workspaceID, slug, ok := strings.Cut(m.Preset, "/")
	if !ok {
		return nil
	}
	p, err := tx.Preset(workspaceID, slug)
	if err != nil {
		return err
	}
	p.Labels = make(map[string]domain.Target)
	var label string
	var last domain.LabelChange
	for label, err = range tx.LabelNames(p) {
		if err != nil {
			return err
		}
		n, err := tx.LabelChanges(p, label)
		if err != nil {
			return err
		}
		if last, err = tx.LabelChange(p, label, n); err != nil {
			return err
		}
		if last.To != nil {
			p.Labels[label] = *last.To
		}
	}
	if to := last.To; to != nil && (to.Check(p) != nil || len(p.Labels) > domain.MaxLabels) {
		delete(p.Labels, label)
		removal := domain.LabelChange{
			Number: last.Number + 1, Time: time.Now().UTC().Truncate(time.Millisecond), KeyID: who.KeyID, UserID: who.UserID, From: to,
		}
		if err := tx.PutLabelChange(p, label, removal); err != nil {
			return err
		}
	}
	return tx.PutPreset(p)
}

// forget removes m. A kept answer that has expired counts as removed.
func (m progress) forget(tx domain.Tx) error {
	return tx.PutReplay(domain.Replay{ID: progressID, Request: m.Sum[:], Answer: []byte("{}"), ExpiresAt: time.Now().UTC().Add(-time.Second)})
}

// trailWorkspace is a workspace of the audit trail that is not deleted.
type trailWorkspace struct {
	slug    string
	presets int      // that are missing
	names   []string // of the first of them
}

// lookForMissing compares what was imported with what the audit trail says.
func lookForMissing(ctx context.Context, r domain.Reader, m progress) (a Abandoned, err error) {
	head, err := r.AuditHead()
	if err != nil {
		return a, err
	}
	a.Lines, a.TrailMayEnd = m.Line, m.Line <= 1+head.Count
	var order []string
	workspaces, keys := map[string]*trailWorkspace{}, map[string]bool{}
	for record, err := range r.AuditTrail(0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return a, err
		}
		o := record.Object
		if o.Kind == "workspace" {
			if workspaces[o.ID] == nil {
				workspaces[o.ID] = &trailWorkspace{}
				order = append(order, o.ID)
			}
			workspaces[o.ID].slug = o.Slug
		}
		switch {
		case record.Operation == "workspace.delete":
			workspaces[o.ID] = nil
			order = slices.DeleteFunc(order, func(id string) bool { return id == o.ID })
		case record.Operation == "key.issue":
			if _, err := r.Key(o.ID); errors.Is(err, domain.ErrNotFound) {
				keys[o.ID] = true
			} else if err != nil {
				return a, err
			}
		case record.Operation == "key.remove":
			delete(keys, o.ID)
		case record.Begins():
			_, err := r.Preset(o.WorkspaceID, o.Slug)
			w := workspaces[o.WorkspaceID]
			if err != nil && !errors.Is(err, domain.ErrNotFound) {
				return a, err
			}
			if err == nil || w == nil {
				break
			}
			if w.presets++; w.presets <= maxNamed {
				w.names = append(w.names, o.Slug)
			}
		}
	}
	a.Missing.Keys = len(keys)
	a.Missing.WorkspaceSlugs, a.Missing.PresetSlugs = []string{}, []string{}
	for _, id := range order {
		w := workspaces[id]
		switch _, err := r.Workspace(id); {
		case errors.Is(err, domain.ErrNotFound):
			if a.Missing.Workspaces++; len(a.Missing.WorkspaceSlugs) < maxNamed {
				a.Missing.WorkspaceSlugs = append(a.Missing.WorkspaceSlugs, w.slug)
			}
		case err != nil:
			return a, err
		}
		a.Missing.Presets += w.presets
		for _, slug := range w.names[:min(len(w.names), maxNamed-len(a.Missing.PresetSlugs))] {
			a.Missing.PresetSlugs = append(a.Missing.PresetSlugs, w.slug+"/"+slug)
		}
	}
	if id, slug, ok := strings.Cut(m.Preset, "/"); ok {
		w, err := r.Workspace(id)
		if err != nil {
			return a, err
		}
		a.Partial = w.Slug + "/" + slug
	}
	return a, nil
}
