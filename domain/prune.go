package domain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// prune removes at most MaxChangeRemoved prunable versions of a stored preset, and
// returns their numbers.
func (c *change) prune(p *Preset, on Pruning) ([]int, error) {
	numbers, err := on.prunable(c, *p, MaxChangeRemoved)
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	if on.Erase {
		return numbers, c.DeletePreset(*p)
	}
	p.Kept = p.Kept.Without(numbers)
	return numbers, c.PruneVersions(*p, numbers)
}

// chosen returns the versions of p that are named, or all to erase.
func (on Pruning) chosen(p Preset) (numbers []int, err error) {
	if on.Erase {
		if numbers = slices.Collect(p.State().Versions()); len(numbers) > MaxChangeRemoved {
			err = &Error{Kind: Conflict, Message: fmt.Sprintf("Preset %s has more than %d versions: remove its labels and prune it first", p.Slug, MaxChangeRemoved)}
		}
		return numbers, err
	}
	inUse := p.versionsInUse()
	for _, n := range slices.Compact(slices.Sorted(slices.Values(on.Versions))) {
		if !p.State().Has(n) {
			return nil, &Error{Kind: NotFound, Message: fmt.Sprintf("Preset %s has no version %d", p.Slug, n)}
		}
		if inUse[n] {
			return nil, &Error{Kind: Conflict, Message: fmt.Sprintf("Version %d of preset %s is designated or has a label: designate another one, and move its labels, first", n, p.Slug)}
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// prunable returns the versions of p that may be removed, the oldest first, and no more than
// most. If on.Keep is 0, all versions stay.
func (on Pruning) prunable(r Reader, p Preset, most int) (numbers []int, err error) {
	if on.Erase || len(on.Versions) > 0 {
		return on.chosen(p)
	}
	var inUse map[int]bool
	var served Served
	for n := range p.State().Versions() {
		if on.Keep < 1 || n > p.LatestVersion-on.Keep || len(numbers) == most {
			break
		}
		if inUse == nil {
			inUse = p.versionsInUse()
			if !on.UnusedSince.IsZero() {
				served, err = r.Served(p.WorkspaceID, p.Slug)
			}
		}
		isUsed := inUse[n]
		if err == nil && !isUsed && !on.UnusedSince.IsZero() {
			isUsed, err = on.isUsed(r, p.State(), served, n)
		}
		if err != nil {
			return nil, err
		}
		if !isUsed {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// isUsed reports whether a version was served, or made and never served, since
// UnusedSince. Served has hours only, so their end counts.
func (on Pruning) isUsed(r Reader, p PresetState, served Served, n int) (bool, error) {
	if hour, ok := served[n]; ok {
		return (hour+1)*3600 > on.UnusedSince.Unix(), nil
	}
	v, err := r.PresetVersion(p, n)
	return v.CreatedAt.After(on.UnusedSince), err
}

// Pruning says which versions of presets to remove.
type Pruning struct {
	// Keep is how many of the newest of each preset stay, at least 1.
	Keep int
	// UnusedSince, unless it is zero, keeps versions that were served since then, to the hour.
	// It also keeps those that were made since then and never served.
	UnusedSince time.Time
	// Workspace is the id or slug of the one workspace to look in, empty for all, or for the default
	// one with a Preset.
	Workspace string
	// Preset is the slug of the one preset to look at, empty for all.
	Preset string
	// Versions of the Preset are removed, and no others, unless there are none. A version that requests
	// get without naming its number is a Conflict. There are less than MaxChangeRemoved.
	Versions []int
	// Erase removes the Preset as a whole, with its labels and their history.
	Erase bool
	// DryRun removes nothing, and only reports.
	DryRun bool
}

// Pruned are the removed versions of one preset. Operators see its JSON.
type Pruned struct {
	WorkspaceID   string `json:"workspace_id"`
	WorkspaceSlug string `json:"workspace_slug"`
	Slug          string `json:"slug"`
	// Versions are those that were removed, such as 1-97,99, and Count how many.
	Versions string `json:"versions"`
	Count    int    `json:"count"`
}

// PruneVersions removes versions of presets of any status, for good. Unless they are chosen, it keeps the
// newest of each, and the designated one. It keeps versions that a label stands for, also in part,
// and those that UnusedSince keeps. Clients see the presets as before, in the same order.
// The result has each preset that lost versions, by workspace, also beside an error.
//
// Many versions of one preset are removed in several changes, and others may write in
// between. So each change decides anew which versions may go. The condition and the
// Idempotency-Key of w are about one change, and are ignored. An unknown workspace is
// NotFound. w.Who must be allowed to manage every workspace. Without the right
// ProtectedLabels a protected preset that has versions to remove is Forbidden.
func (s *Service) PruneVersions(ctx context.Context, w Write, on Pruning) ([]Pruned, error) {
	if err := w.Who.CheckManagementOfAll(); err != nil {
		return nil, err
	}
	switch isChosen := on.Erase || len(on.Versions) > 0; {
	case isChosen && on.Preset == "":
		return nil, InvalidAt("preset", "must be given with versions and with erase")
	case !isChosen && on.Keep < 1:
		return nil, InvalidAt("keep", "must be at least 1")
	case on.Preset != "":
		on.Workspace = cmp.Or(on.Workspace, DefaultWorkspaceSlug)
	}
	w = Write{Who: w.Who, RequestID: w.RequestID}
	workspaces, err := s.prunedWorkspaces(ctx, on.Workspace)
	if err != nil {
		return nil, err
	}
	var all []Pruned
	for _, home := range workspaces {
		found, err := s.prunable(ctx, home, on)
		if err != nil {
			return all, err
		}
		for _, p := range found {
			if !on.DryRun {
				p, err = s.pruneVersions(ctx, w, p, on)
			}
			if p.Count > 0 {
				all = append(all, p)
			}
			if err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// prunedWorkspaces returns the workspace of an id or slug, or all for an empty ref.
func (s *Service) prunedWorkspaces(ctx context.Context, ref string) (all []Workspace, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		if ref != "" {
			id, _, err := findWorkspace(r, ref)
			if err != nil {
				return err
			}
			w, err := r.Workspace(id)
			all = append(all, w)
			return err
		}
		text, _, err := r.WorkspacePage(Page{Limit: math.MaxInt32})
		if err != nil {
			return err
		}
		return jsonv2.Unmarshal(text, &all)
	})
	return all, err
}

// prunable returns the versions to remove in a workspace, none in a deleted one.
func (s *Service) prunable(ctx context.Context, home Workspace, on Pruning) (found []Pruned, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		if err := CheckWorkspace(r, home.ID); err != nil {
			return err
		}
		presets := r.Presets(home.ID)
		if on.Preset != "" {
			presets = func(yield func(Preset, error) bool) { yield(r.Preset(home.ID, on.Preset)) }
		}
		for p, err := range presets {
			if errors.Is(err, ErrNotFound) {
				return errPresetNotFound
			}
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			numbers, err := on.prunable(r, p, p.LatestVersion)
			if err != nil {
				return err
			}
			if len(numbers) > 0 {
				found = append(found, Pruned{home.ID, home.Slug, p.Slug, formatRanges(numbers), len(numbers)})
			}
		}
		return nil
	})
	if KindOf(err) == NotFound && on.Preset == "" {
		err = nil
	}
	return found, err
}

// pruneVersions removes the prunable versions of a preset, and returns them.
func (s *Service) pruneVersions(ctx context.Context, w Write, of Pruned, on Pruning) (Pruned, error) {
	var all []int
	for {
		var numbers []int
		_, err := s.change(ctx, w, func(c *change) error {
			numbers = nil
			if err := CheckWorkspace(c, of.WorkspaceID); err != nil {
				return err
			}
			p, err := c.Preset(of.WorkspaceID, of.Slug)
			if err != nil {
				return err
			}
			if err := c.guardPreset(p); err != nil {
				return err
			}
			numbers, err = c.prune(&p, on)
			if err != nil || len(numbers) == 0 {
				return err
			}
			object := p.audited()
			object.Pruned = formatRanges(numbers)
			if on.Erase {
				return c.record("preset.erase", object, p.DesignatedVersion, 0)
			}
			return c.record("preset.prune", object, p.DesignatedVersion, p.DesignatedVersion)
		})
		switch {
		case KindOf(err) == NotFound, errors.Is(err, ErrNotFound): // it went with its workspace
			err = nil
		case err == nil:
			all = append(all, numbers...)
		}
		if err != nil || len(numbers) < MaxChangeRemoved {
			slices.Sort(all)
			of.Versions, of.Count = formatRanges(all), len(all)
			return of, err
		}
	}
}
