package domain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain/access"
	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// MaxStoredSize bounds the JSON of a workspace and of a preset version, in bytes. A store
// must fit each into one transaction.
const MaxStoredSize = 256 << 10

// Workspace holds the defaults and logging settings of a team (specification,
// "Workspace"). Its JSON form is the one clients see, with every field
// present, and also the one that is stored.
type Workspace struct {
	ID                              string          `json:"id"`
	Name                            string          `json:"name"`
	Slug                            string          `json:"slug"`
	Description                     *string         `json:"description"`
	DefaultTextModel                *string         `json:"default_text_model"`
	DefaultImageModel               *string         `json:"default_image_model"`
	DefaultProviderSort             *string         `json:"default_provider_sort"`
	DefaultGuardrailID              string          `json:"default_guardrail_id"`
	IOLoggingAPIKeyIDs              json.RawMessage `json:"io_logging_api_key_ids"` // array of strings and integers as sent, or null
	IOLoggingSamplingRate           float64         `json:"io_logging_sampling_rate"`
	IsDataDiscountLoggingEnabled    bool            `json:"is_data_discount_logging_enabled"`
	IsObservabilityBroadcastEnabled bool            `json:"is_observability_broadcast_enabled"`
	IsObservabilityIOLoggingEnabled bool            `json:"is_observability_io_logging_enabled"`
	CreatedAt                       time.Time       `json:"created_at"`
	CreatedBy                       string          `json:"created_by"`
	UpdatedAt                       *time.Time      `json:"updated_at"` // null until the first change
	// DisabledServerTools are the server tools that inference requests may not use,
	// nil for none. Each stands for all its spellings. Package inference looks for them in
	// routes that resolve presets alone; see inference.Resolver.CheckUnresolvedRoute for others.
	DisabledServerTools *[]string `json:"disabled_server_tools"`
	// Limits are those of each inference key that acts in the workspace, unless the key has the
	// same limit itself. Nil is none.
	Limits *Limits `json:"limits,omitzero"`
	// Budgets bound what all requests that act in the workspace spend together. Nil is none.
	Budgets Budgets `json:"budgets,omitzero"`
	// IncludeBYOKInBudgets is kept for clients, as KeyLimits.IncludeBYOKInLimit is.
	IncludeBYOKInBudgets bool `json:"include_byok_in_budgets,omitzero"`
}

// JSON returns w as clients see it, which is also its stored form.
func (w Workspace) JSON() ([]byte, error) { return jsonv2.Marshal(w, jsonv2.Deterministic(true)) }

// CreateWorkspace stores a new workspace. Absent fields of in have their defaults, and its name and
// slug are there. A slug that is taken is Invalid, since the
// specification declares no 409 here. So is a workspace of more than MaxStoredSize. w.Who
// must be allowed to manage every workspace.
func (s *Service) CreateWorkspace(ctx context.Context, w Write, in WorkspacePatch) (Outcome, error) {
	if err := w.Who.CheckManagementOfAll(); err != nil {
		return Outcome{}, err
	}
	if issues := in.issues(); issues != nil {
		return Outcome{}, InvalidIssues(issues...)
	}
	id := s.newID()
	return s.change(ctx, w, func(c *change) error {
		if err := c.Condition.Check(); err != nil {
			return err
		}
		return c.insertWorkspace(in.apply(newWorkspace(id, c.Who.UserID, c.now, "", ""), s.newID, c.now))
	})
}

// insertWorkspace stores and records a new workspace.
func (c *change) insertWorkspace(w Workspace) error {
	if err := c.checkSlugFree(w.Slug); err != nil {
		return err
	}
	return c.putWorkspace("workspace.create", w, w)
}

// checkSlugFree returns an Invalid error if a workspace has slug as its slug or as its id.
func (c *change) checkSlugFree(slug string) error {
	if uuid.Validate(slug) == nil {
		return InvalidAt("/slug", "must not be a UUID")
	}
	switch _, err := c.WorkspaceID(slug); {
	case err == nil:
		return InvalidAt("/slug", "already in use by another workspace")
	case !errors.Is(err, ErrNotFound):
		return err
	}
	return nil
}

// putWorkspace stores and records w and makes it the answer.
func (c *change) putWorkspace(operation string, before, w Workspace) error {
	err := c.PutWorkspace(w)
	if err == nil {
		err = c.showWorkspace(w)
	}
	if errors.Is(err, ErrTooLarge) || len(c.out.JSON) > MaxStoredSize {
		return InvalidAt("", fmt.Sprintf("what a workspace stores must be at most %d bytes", MaxStoredSize))
	}
	if err != nil {
		return err
	}
	changes, err := diff.Fields(before, w)
	if err != nil {
		return err
	}
	return c.record(operation, w.audited(), 0, 0, changes...)
}

// showWorkspace makes a stored workspace the answer.
func (c *change) showWorkspace(w Workspace) (err error) {
	c.out.Workspace, c.out.WorkspaceID = w, w.ID
	c.out.JSON, err = c.WorkspaceJSON(w.ID)
	return err
}

func (w Workspace) audited() AuditObject {
	return AuditObject{Kind: "workspace", ID: w.ID, WorkspaceID: w.ID, Slug: w.Slug}
}

// EnsureDefaultWorkspace creates the workspace named DefaultWorkspaceSlug when
// the store has none.
func (s *Service) EnsureDefaultWorkspace(ctx context.Context) error {
	err := s.store.View(ctx, func(r Reader) error {
		_, err := r.WorkspaceID(DefaultWorkspaceSlug)
		return err
	})
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	id := s.newID()
	_, err = s.change(ctx, By(system), func(c *change) error { return c.insertWorkspace(defaultWorkspace(id, c.now)) })
	if KindOf(err) == Invalid { // another node was first
		return nil
	}
	return err
}

// Workspace returns the workspace whose id is ref, or else whose slug is ref. So a slug in
// the shape of a UUID never hides an id (specification, "GET /workspaces/{id}"). who must
// be allowed to manage.
func (s *Service) Workspace(ctx context.Context, who Principal, ref string) (found Found, err error) {
	if err := who.CheckManagement(); err != nil {
		return found, err
	}
	if err := s.store.Sync(ctx); err != nil {
		return found, err
	}
	k, stamp := answerKey{what: workspaceKind, workspace: ref}, s.store.Stamps().Workspace(ref)
	if who.OnlyWorkspace() {
		stamp = 0 // the answer is not for others
	} else if found, ok := s.answers.Get(k, stamp); ok {
		return found, nil
	}
	return s.readAnswer(ctx, k, stamp, func(r Reader) (Found, error) {
		id, text, err := reachedWorkspace(r, who, ref)
		return tagged(Found{JSON: text, WorkspaceID: id}), err
	})
}

// home returns the id of the workspace that who acts in. A ref that is not empty names
// it. The workspace may be deleted before the id is used: see CheckWorkspace.
func (s *Service) home(ctx context.Context, who Principal, ref string) (string, error) {
	var k answerKey
	var stamp Stamp // none for a workspace that is named: the View below does what Sync does
	if ref == "" {
		if err := s.store.Sync(ctx); err != nil {
			return "", err
		}
		id, slug := who.WorkspaceRef()
		k, stamp = answerKey{what: ownWorkspaceKind, workspace: id, slug: slug}, s.store.Stamps().Workspace(id+slug)
		if found, ok := s.answers.Get(k, stamp); ok {
			return found.WorkspaceID, nil
		}
	}
	found, err := s.readAnswer(ctx, k, stamp, func(r Reader) (Found, error) {
		id, err := workspaceOf(r, who, ref)
		return Found{WorkspaceID: id}, err
	})
	return found.WorkspaceID, err
}

// CheckWorkspace returns a NotFound error if the workspace of an id was deleted. Its
// content may then be incomplete.
func CheckWorkspace(r Reader, workspaceID string) error {
	_, err := r.WorkspaceJSON(workspaceID)
	return workspaceNotFound(err)
}

// system is the server itself, in the audit trail and as a creator.
var system = Principal{UserID: "system", Kind: ManagementKey}

func defaultWorkspace(id string, now time.Time) Workspace {
	return newWorkspace(id, system.UserID, now, "Default", DefaultWorkspaceSlug)
}

// newWorkspace returns a workspace with default settings.
func newWorkspace(id, by string, now time.Time, name, slug string) Workspace {
	return Workspace{
		ID: id, Name: name, Slug: slug, CreatedAt: now, CreatedBy: by,
		DefaultGuardrailID:           uuid.NewSHA1(uuid.MustParse(id), []byte("default-guardrail")).String(),
		IOLoggingSamplingRate:        1,
		IsDataDiscountLoggingEnabled: true,
	}
}

// ValueOr returns what a pointer leads to. It returns otherwise without one.
func ValueOr[T any](given *T, otherwise T) T {
	if given != nil {
		return *given
	}
	return otherwise
}

// nilIfEmpty makes an empty list of disabled tools none.
func nilIfEmpty(tools *[]string) *[]string {
	if tools == nil || len(*tools) == 0 {
		return nil
	}
	return tools
}

// findWorkspace returns the workspace whose id is ref, or else whose slug is ref. text is
// the workspace as clients see it.
func findWorkspace(r Reader, ref string) (id string, text []byte, err error) {
	text, err = r.WorkspaceJSON(ref)
	if !errors.Is(err, ErrNotFound) {
		return strings.ToLower(ref), text, err // ids are looked up in either case
	}
	if id, err = r.WorkspaceID(ref); err != nil {
		return "", nil, workspaceNotFound(err)
	}
	if text, err = r.WorkspaceJSON(id); errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("workspace %s, which holds a slug, is not stored", id)
	}
	return id, text, err
}

// reachedWorkspace is findWorkspace for who. A workspace out of reach is NotFound, with the
// answer of one that does not exist.
func reachedWorkspace(r Reader, who Principal, ref string) (id string, text []byte, err error) {
	var own string
	if who.OnlyWorkspace() {
		if own, err = workspaceOf(r, who, ""); err != nil {
			return "", nil, err
		}
	}
	id, text, err = findWorkspace(r, ref)
	if err == nil && own != "" && own != id {
		return "", nil, errWorkspaceNotFound
	}
	return id, text, err
}

// workspaceOf returns the id of the workspace that who acts in. That is the one ref names,
// else the key's own, else the default one. Only a management key may name another than its
// own, and learns whether it exists.
func workspaceOf(r Reader, who Principal, ref string) (id string, err error) {
	if ref != "" && who.Kind == ManagementKey {
		id, _, err = reachedWorkspace(r, who, ref)
		return id, err
	}
	id, slug := who.WorkspaceRef()
	if id != "" {
		_, err = r.WorkspaceJSON(id) // it may have been deleted
	} else {
		id, err = r.WorkspaceID(slug)
	}
	if err != nil {
		return "", workspaceNotFound(err)
	}
	if ref == "" || ref == id {
		return id, nil
	}
	switch other, err := r.WorkspaceID(ref); {
	case errors.Is(err, ErrNotFound) || err == nil && other != id:
		return "", access.ErrOnlyManagement
	default:
		return id, err
	}
}

// Home returns the id of the workspace that who acts in. One that does not exist is
// NotFound.
func Home(r Reader, who Principal) (id string, err error) { return workspaceOf(r, who, "") }

var errWorkspaceNotFound = &Error{Kind: NotFound, Code: WorkspaceNotFound, Message: "Workspace not found"}

func workspaceNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return errWorkspaceNotFound
	}
	return err
}
