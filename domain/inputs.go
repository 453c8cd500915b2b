package domain

import (
	"context"
	"time"
)

// Part is what became of something that belongs to a preset, such as a saved input.
type Part struct {
	// JSON is the answer's data, nil if it is gone.
	JSON []byte
	// ID and Name are its own, and Operation is the audit record's, empty if nothing changed.
	ID, Name, Operation string
}

// PartChange changes something that belongs to p, and checks the condition of the change on it. It adds something with an
// id, or changes what is there.
type PartChange func(tx Tx, p Preset, w Write, id string, now time.Time) (Part, error)

// ChangePart changes what belongs to a preset, as one durable change with an audit record. It leaves the preset as it is,
// but for an owner that it gets. The condition of an addition is on the preset. An archived preset is NotFound.
func (s *Service) ChangePart(ctx context.Context, w Write, workspace, slug string, isAddition bool, run PartChange) (Outcome, error) {
	id := s.newID()
	return s.change(ctx, w, func(c *change) error {
		p, err := visiblePreset(c, c.Who, workspace, slug)
		if err == nil && isAddition {
			err = c.checkPreset(p)
		}
		if err != nil {
			return err
		}
		part, err := run(c, p, c.Write, id, c.now)
		if err != nil {
			return err
		}
		c.out.JSON, c.out.WorkspaceID = part.JSON, p.WorkspaceID
		if part.Operation == "" {
			return nil
		}
		owner := p.ManagedBy
		if err := c.claimPreset(&p); err != nil {
			return err
		}
		if owner == nil && p.ManagedBy != nil {
			if err := c.storePreset(&p); err != nil {
				return err
			}
		}
		object := p.audited()
		object.Input, object.Name = part.ID, part.Name
		return c.record(part.Operation, object, p.DesignatedVersion, p.DesignatedVersion)
	})
}

// ReadPart reads what belongs to a preset that who reaches. An archived preset is NotFound.
func (s *Service) ReadPart(ctx context.Context, who Principal, workspace, slug string, read func(Reader, Preset) error) error {
	return s.store.View(ctx, func(r Reader) error {
		p, err := visiblePreset(r, who, workspace, slug)
		if err != nil {
			return err
		}
		return read(r, p)
	})
}
