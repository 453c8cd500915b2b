package domain

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/access"
)

// WorkspacePatch is the body of a workspace's creation or update, already checked against its schema.
// An absent field stays as it is. Null clears a field that may be null.
type WorkspacePatch struct {
	Name                            *string            `json:"name"`
	Slug                            *string            `json:"slug"`
	Description                     Settable[string]   `json:"description"`
	DefaultTextModel                Settable[string]   `json:"default_text_model"`
	DefaultImageModel               Settable[string]   `json:"default_image_model"`
	DefaultProviderSort             Settable[string]   `json:"default_provider_sort"`
	IOLoggingAPIKeyIDs              json.RawMessage    `json:"io_logging_api_key_ids"` // nil where absent
	IOLoggingSamplingRate           *float64           `json:"io_logging_sampling_rate"`
	IsDataDiscountLoggingEnabled    *bool              `json:"is_data_discount_logging_enabled"`
	IsObservabilityBroadcastEnabled *bool              `json:"is_observability_broadcast_enabled"`
	IsObservabilityIOLoggingEnabled *bool              `json:"is_observability_io_logging_enabled"`
	DisabledServerTools             Settable[[]string] `json:"disabled_server_tools"`
	// Limits replace all limits of the workspace.
	Limits Settable[Limits] `json:"limits"`
	// Budgets replace all budgets of the workspace, by their intervals and limits alone.
	Budgets Settable[Budgets] `json:"budgets"`
}

// Settable is a field of a patch that may be null.
type Settable[T any] struct {
	// Given reports whether the field is there at all.
	Given bool
	// Value is nil for null.
	Value *T
}

// UnmarshalJSONFrom reads the field, which is there, with the options of the decoder. encoding/json does not call it.
func (s *Settable[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	s.Given = true
	return jsonv2.UnmarshalDecode(d, &s.Value)
}

// set gives *field the value, or null, if the patch has the field.
func (s Settable[T]) set(field **T) {
	if s.Given {
		*field = s.Value
	}
}

func setTo[T any](field *T, given *T) {
	if given != nil {
		*field = *given
	}
}

func (patch WorkspacePatch) issues() []Issue {
	return append(patch.Limits.Value.Check("/limits"), ValueOr(patch.Budgets.Value, nil).CheckAll("/budgets")...)
}

// apply returns w with the changes made.
func (patch WorkspacePatch) apply(w Workspace, newID func() string, now time.Time) Workspace {
	setTo(&w.Name, patch.Name)
	setTo(&w.Slug, patch.Slug)
	patch.Description.set(&w.Description)
	patch.DefaultTextModel.set(&w.DefaultTextModel)
	patch.DefaultImageModel.set(&w.DefaultImageModel)
	patch.DefaultProviderSort.set(&w.DefaultProviderSort)
	if patch.IOLoggingAPIKeyIDs != nil {
		w.IOLoggingAPIKeyIDs = patch.IOLoggingAPIKeyIDs
	}
	setTo(&w.IOLoggingSamplingRate, patch.IOLoggingSamplingRate)
	setTo(&w.IsDataDiscountLoggingEnabled, patch.IsDataDiscountLoggingEnabled)
	setTo(&w.IsObservabilityBroadcastEnabled, patch.IsObservabilityBroadcastEnabled)
	setTo(&w.IsObservabilityIOLoggingEnabled, patch.IsObservabilityIOLoggingEnabled)
	patch.DisabledServerTools.set(&w.DisabledServerTools)
	w.DisabledServerTools = nilIfEmpty(w.DisabledServerTools)
	patch.Limits.set(&w.Limits)
	w.Limits = w.Limits.NilIfNone()
	if patch.Budgets.Given {
		w.Budgets = w.Budgets.ReplacedBy(ValueOr(patch.Budgets.Value, nil), newID, now)
	}
	return w
}

// findWorkspaceToChange returns the workspace that a change is about, and checks the
// condition of the change.
func (c *change) findWorkspaceToChange(ref string) (w Workspace, err error) {
	id, text, err := reachedWorkspace(c, c.Who, ref)
	if err != nil {
		return w, err
	}
	if err := c.Condition.Check(Tag(text)); err != nil {
		return w, err
	}
	return c.Workspace(id)
}

// UpdateWorkspace changes the workspace of an id or slug. If it has these values already,
// nothing changes. A taken slug is Invalid. The default workspace must keep its slug, and
// so must one that a configured key names by its slug. w.Who must be allowed to manage. A
// key that reaches one workspace only may not change the slug, and its limits and budgets only with
// the right IssueKeys: Forbidden.
func (s *Service) UpdateWorkspace(ctx context.Context, w Write, ref string, patch WorkspacePatch, configured []Principal) (Outcome, error) {
	if err := w.Who.CheckManagement(); err != nil {
		return Outcome{}, err
	}
	if issues := patch.issues(); issues != nil {
		return Outcome{}, InvalidIssues(issues...)
	}
	return s.change(ctx, w, func(c *change) error {
		old, err := c.findWorkspaceToChange(ref)
		if err != nil {
			return err
		}
		updated := patch.apply(old, s.newID, c.now)
		// A taken slug would tell of another workspace, and limits bound the key's own team.
		isBounded := !equal(updated.Limits, old.Limits) || !maps.Equal(updated.Budgets, old.Budgets)
		if c.Who.OnlyWorkspace() && (isBounded || updated.Slug != old.Slug) {
			return access.ErrOnlyWorkspace
		}
		before, err := old.JSON()
		if err != nil {
			return err
		}
		after, err := updated.JSON()
		switch {
		case err != nil:
			return err
		case string(before) == string(after):
			return c.showWorkspace(old)
		case updated.Slug == old.Slug:
		case old.Slug == DefaultWorkspaceSlug:
			return InvalidAt("/slug", "the default workspace keeps its slug")
		case isNamed(configured, old.Slug):
			return InvalidAt("/slug", "keys of the configuration name the workspace by its slug; remove them first")
		default:
			if err := c.checkSlugFree(updated.Slug); err != nil {
				return err
			}
		}
		updated.UpdatedAt = &c.now
		return c.putWorkspace("workspace.update", old, updated)
	})
}

// WorkspaceDeletion has the conditions under which a workspace is deleted.
type WorkspaceDeletion struct {
	// ConfirmDefault is needed for the default workspace.
	ConfirmDefault bool
	// Configured are the keys of the configuration. They act in workspaces, too.
	Configured []Principal
}

// isNamed reports whether one of keys acts in the workspace of a slug, and would in
// no other.
func isNamed(keys []Principal, slug string) bool {
	return slug != DefaultWorkspaceSlug && slices.ContainsFunc(keys, func(who Principal) bool { return who.WorkspaceSlug == slug })
}

// DeleteWorkspace removes the workspace of an id or slug with all its presets. It is Invalid
// while live keys act in it. The same change makes a deleted default workspace anew, empty and
// with another id. A preset whose owner is neither w.Owner nor w.Override is a Conflict. Keys
// without a workspace of their own do not prevent the deletion. It is Forbidden unless w.Who
// may manage every workspace, and may remove the protected presets and labels of this one. The
// outcome has no JSON.
func (s *Service) DeleteWorkspace(ctx context.Context, w Write, ref string, on WorkspaceDeletion) (Outcome, error) {
	if err := w.Who.CheckManagement(); err != nil {
		return Outcome{}, err
	}
	id := s.newID()
	return s.change(ctx, w, func(c *change) error {
		old, err := c.findWorkspaceToChange(ref)
		if err != nil {
			return err
		}
		if err := c.Who.CheckManagementOfAll(); err != nil {
			return err
		}
		if old.Slug == DefaultWorkspaceSlug && !on.ConfirmDefault {
			return InvalidAt("confirm_default_workspace_deletion", "must be true to delete the default workspace")
		}
		keys, err := c.Keys()
		if err != nil {
			return err
		}
		acts := func(k Key) bool { // a disabled one may be enabled again
			_, ended := k.Ended(c.now)
			return k.WorkspaceID == old.ID && !ended
		}
		if slices.ContainsFunc(keys, acts) || isNamed(on.Configured, old.Slug) {
			return InvalidAt("id", "the workspace has live keys; revoke them first")
		}
		if err := c.guardPresets(old.ID); err != nil {
			return err
		}
		if err := c.DeleteWorkspace(old); err != nil {
			return err
		}
		if err := c.record("workspace.delete", old.audited(), 0, 0); err != nil {
			return err
		}
		if old.Slug == DefaultWorkspaceSlug {
			if err := c.insertWorkspace(defaultWorkspace(id, c.now)); err != nil {
				return err
			}
		}
		c.out = Outcome{WorkspaceID: old.ID, Workspace: old, Records: c.out.Records}
		return nil
	})
}

// Workspaces returns a page of the workspaces that who reaches, the oldest first. who must be
// allowed to manage.
func (s *Service) Workspaces(ctx context.Context, who Principal, page Page) (list Found, err error) {
	if err := who.CheckManagement(); err != nil {
		return list, err
	}
	if who.OnlyWorkspace() {
		return s.ownWorkspacePage(ctx, who, page)
	}
	if err := s.store.Sync(ctx); err != nil {
		return list, err
	}
	k, stamp := answerKey{what: workspacesKind, page: page}, s.store.Stamps().Workspaces()
	if list, ok := s.answers.Get(k, stamp); ok {
		return list, nil
	}
	return s.readAnswer(ctx, k, stamp, func(r Reader) (Found, error) {
		text, total, err := r.WorkspacePage(page)
		return listed(text, total), err
	})
}

// ownWorkspacePage is Workspaces for a key that reaches one workspace only.
func (s *Service) ownWorkspacePage(ctx context.Context, who Principal, page Page) (Found, error) {
	var all [][]byte
	err := s.store.View(ctx, func(r Reader) error {
		id, err := Home(r, who)
		if err != nil || page.Offset > 0 {
			return err
		}
		text, err := r.WorkspaceJSON(id)
		all = [][]byte{text}
		return err
	})
	return listed(jsonArray(all), 1), err
}
