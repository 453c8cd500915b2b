package domain

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain/access"
)

// BudgetPatch is the body that sets a budget, already checked against its schema.
type BudgetPatch struct {
	LimitUSD float64 `json:"limit_usd"`
	// IncludeBYOK is Workspace.IncludeBYOKInBudgets, nil for no change.
	IncludeBYOK *bool `json:"include_byok_in_budgets"`
}

// shownBudget is a budget as clients see it.
type shownBudget struct {
	ID          string  `json:"id"`
	WorkspaceID string  `json:"workspace_id"`
	LimitUSD    float64 `json:"limit_usd"`
	// ResetInterval is nil for Lifetime.
	ResetInterval *Interval `json:"reset_interval"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
	// SpendUSD is what was spent in the present window. It is in lists alone, and nil if it cannot be read.
	SpendUSD *float64 `json:"spend_usd,omitzero"`
}

func (w Workspace) showBudget(interval Interval) shownBudget {
	b := w.Budgets[interval]
	shown := shownBudget{ID: b.ID, WorkspaceID: w.ID, LimitUSD: b.LimitUSD, CreatedAt: b.CreatedAt, UpdatedAt: *cmp.Or(b.UpdatedAt, &b.CreatedAt)}
	if interval != Lifetime {
		shown.ResetInterval = &interval
	}
	return shown
}

// withBYOK returns the JSON of data, followed by the member that clients expect beside it.
func (w Workspace) withBYOK(data any) ([]byte, error) {
	text, err := jsonv2.Marshal(data)
	return strconv.AppendBool(append(text, `,"include_byok_in_budgets":`...), w.IncludeBYOKInBudgets), err
}

var errBudgetNotFound = &Error{Kind: NotFound, Message: "Budget not found"}

// Budgets returns the budgets of the workspace of an id or slug, the shortest interval first. JSON of the result is
// the array and the members that follow it in the answer. who must be allowed to manage. spent returns what the
// workspace of an id has spent in the present window of an interval, or nil if that cannot be read.
func (s *Service) Budgets(ctx context.Context, who Principal, ref string, spent func(r Reader, workspaceID string) func(Interval) float64) (Found, error) {
	return s.budgets(ctx, who, ref, func(r Reader, w Workspace) (any, error) {
		list := []shownBudget{}
		of := spent(r, w.ID)
		for _, interval := range Intervals {
			if _, ok := w.Budgets[interval]; ok {
				b := w.showBudget(interval)
				if of != nil {
					b.SpendUSD = new(of(interval))
				}
				list = append(list, b)
			}
		}
		return list, nil
	})
}

// Budget is Budgets for the one of an interval. It is NotFound if there is none.
func (s *Service) Budget(ctx context.Context, who Principal, ref string, interval Interval) (Found, error) {
	return s.budgets(ctx, who, ref, func(_ Reader, w Workspace) (any, error) {
		if _, ok := w.Budgets[interval]; !ok {
			return nil, errBudgetNotFound
		}
		return w.showBudget(interval), nil
	})
}

func (s *Service) budgets(ctx context.Context, who Principal, ref string, show func(Reader, Workspace) (any, error)) (found Found, err error) {
	if err := who.CheckManagement(); err != nil {
		return found, err
	}
	err = s.store.View(ctx, func(r Reader) error {
		id, _, err := reachedWorkspace(r, who, ref)
		if err != nil {
			return err
		}
		w, err := r.Workspace(id)
		if err != nil {
			return err
		}
		data, err := show(r, w)
		if err != nil {
			return err
		}
		found = Found{WorkspaceID: id}
		found.JSON, err = w.withBYOK(data)
		return err
	})
	return tagged(found), err
}

// PutBudget sets the budget of an interval of the workspace of an id or slug. Of the budgets of a workspace, one of
// a longer interval is greater: Invalid. A budget that is as given already changes nothing. w.Who must be
// allowed to manage, and a key of one workspace needs the right IssueKeys, too. JSON of the outcome is as
// that of Budget.
func (s *Service) PutBudget(ctx context.Context, w Write, ref string, interval Interval, patch BudgetPatch) (Outcome, error) {
	id := s.newID()
	return s.changeBudgets(ctx, w, ref, func(c *change, updated *Workspace) error {
		if issues := updated.Budgets.Check(interval, patch.LimitUSD); issues != nil {
			return InvalidIssues(issues...)
		}
		setTo(&updated.IncludeBYOKInBudgets, patch.IncludeBYOK)
		updated.Budgets.Set(interval, patch.LimitUSD, id, c.now)
		return nil
	}, func(c *change, updated Workspace) (err error) {
		c.out.JSON, err = updated.withBYOK(updated.showBudget(interval))
		return err
	})
}

// DeleteBudget removes the budget of an interval, if there is one. w.Who must be as for PutBudget. The outcome has
// no JSON.
func (s *Service) DeleteBudget(ctx context.Context, w Write, ref string, interval Interval) (Outcome, error) {
	return s.changeBudgets(ctx, w, ref, func(_ *change, updated *Workspace) error {
		delete(updated.Budgets, interval)
		return nil
	}, func(c *change, _ Workspace) error {
		c.out.JSON = nil
		return nil
	})
}

// changeBudgets changes a copy of a workspace's budgets, and stores and records it unless it stays the same.
func (s *Service) changeBudgets(ctx context.Context, w Write, ref string, edit func(*change, *Workspace) error, show func(*change, Workspace) error) (Outcome, error) {
	if err := w.Who.CheckManagement(); err != nil {
		return Outcome{}, err
	}
	return s.change(ctx, w, func(c *change) error {
		old, err := c.findWorkspaceToChange(ref)
		if err != nil {
			return err
		}
		updated := old
		updated.Budgets = maps.Clone(old.Budgets)
		if updated.Budgets == nil {
			updated.Budgets = make(Budgets)
		}
		if err := edit(c, &updated); err != nil {
			return err
		}
		if len(updated.Budgets) == 0 {
			updated.Budgets = nil
		}
		before, err := old.JSON()
		if err != nil {
			return err
		}
		after, err := updated.JSON()
		if err != nil {
			return fmt.Errorf("encoding a workspace: %w", err)
		}
		if bytes.Equal(before, after) {
			c.out.Workspace, c.out.WorkspaceID = old, old.ID
			return show(c, old)
		}
		if c.Who.OnlyWorkspace() { // which the budgets bound, too
			return access.ErrOnlyWorkspace
		}
		updated.UpdatedAt = &c.now
		if err := c.putWorkspace("workspace.update", old, updated); err != nil {
			return err
		}
		return show(c, updated)
	})
}
