// Package plan compares presets as files with a server. New says what differs, and Apply
// brings the server to what the files say. Dump is the way back.
//
// A preset that was applied belongs to an owner. Apply sends all requests on behalf of that
// owner. They hold only if nobody else has changed the object since New.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// Options say how files are compared with a server.
type Options struct {
	// Owner manages the presets of the files.
	Owner string
	// Prune archives presets of Owner that no file describes, in all workspaces that the
	// key sees.
	Prune bool
}

// Plan is what differs between files and a server. Its lists are sorted by workspace and
// slug. Its JSON is that of "caddy presets plan --json".
type Plan struct {
	Changes    []*Change    `json:"changes"`
	Workspaces []*Workspace `json:"workspaces"`
	// Adopt are presets that are equal and belong to nobody. Apply makes them the owner's.
	Adopt []Adoption `json:"adopt"`
	// Notes are what the plan leaves as it is.
	Notes []Problem `json:"notes"`
	// Errors keep the plan from being applied.
	Errors []Problem `json:"errors"`

	// Owner is the owner for whom the plan was made.
	Owner string `json:"-"`
	// Unchanged is the number of presets for which there is nothing to do.
	Unchanged int `json:"-"`

	client *client.Client
}

// Action is what becomes of a preset or of a workspace.
type Action string

// The actions. Workspaces are created and changed alone.
const (
	Create  Action = "create"
	Update  Action = "change"
	Archive Action = "archive"
	Restore Action = "restore" // and then bring up to date
)

// Workspace is a workspace that is missing, or whose defaults differ.
type Workspace struct {
	Slug   string `json:"workspace"`
	Action Action `json:"action"`
	// Settings turns its settings into those of the file.
	Settings []diff.Operation `json:"settings"`

	id, tag string // empty for a new one
	body    []byte
}

// Adoption is a preset that only gets the owner.
type Adoption struct {
	Workspace string `json:"workspace"`
	Slug      string `json:"slug"`

	change *Change
}

// Problem is something that a person should know about a preset or a workspace.
type Problem struct {
	Workspace string `json:"workspace"`
	Slug      string `json:"slug,omitempty"` // empty for the workspace
	Message   string `json:"message"`
}

// Empty returns a plan without changes.
func Empty() *Plan {
	return &Plan{Changes: []*Change{}, Workspaces: []*Workspace{}, Adopt: []Adoption{}, Notes: []Problem{}, Errors: []Problem{}}
}

// IsEmpty reports whether the server is as the files say. Adoptions do not count.
func (p *Plan) IsEmpty() bool {
	return len(p.Changes) == 0 && len(p.Workspaces) == 0 && len(p.Errors) == 0
}

func compareChanges(a, b *Change) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Slug, b.Slug))
}

func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Slug, b.Slug))
}

// New compares files with a server. It changes nothing. The plan keeps set, which must not
// change. The error is that of a request, or of options that cannot be used. Presets that
// cannot be brought to what their files say are in the plan's Errors.
func New(ctx context.Context, c *client.Client, set *files.Set, o Options) (*Plan, error) {
	if err := domain.CheckOwner("owner", o.Owner); err != nil {
		return nil, err
	}
	var presets []*files.Preset
	for i := range set.Workspaces {
		for j := range set.Workspaces[i].Presets {
			presets = append(presets, &set.Workspaces[i].Presets[j])
		}
	}
	if o.Prune && len(presets) == 0 {
		return nil, errors.New("there is no preset in the files, and pruning would archive all: archive the last ones by hand")
	}
	r := &reader{client: c, owner: o.Owner}
	if err := r.readWorkspaces(ctx); err != nil {
		return nil, err
	}
	p := Empty()
	p.Owner, p.client = o.Owner, c
	for i := range set.Workspaces {
		w, err := r.compareWorkspace(ctx, &set.Workspaces[i])
		if err != nil {
			return nil, fmt.Errorf("workspace %s: %w", set.Workspaces[i].Slug, err)
		}
		if w != nil {
			p.Workspaces = append(p.Workspaces, w)
		}
	}
	if err := p.compareAll(ctx, r, presets); err != nil {
		return nil, err
	}
	if err := p.addOthers(ctx, r, set, presets, o.Prune); err != nil {
		return nil, err
	}
	slices.SortFunc(p.Changes, compareChanges)
	slices.SortFunc(p.Adopt, func(a, b Adoption) int { return compareChanges(a.change, b.change) })
	slices.SortFunc(p.Workspaces, func(a, b *Workspace) int { return cmp.Compare(a.Slug, b.Slug) })
	for _, list := range [][]Problem{p.Notes, p.Errors} {
		slices.SortFunc(list, compareProblems)
	}
	return p, nil
}

// compareAll compares presets, several at a time.
func (p *Plan) compareAll(ctx context.Context, r *reader, presets []*files.Preset) error {
	results := make([]*Change, len(presets))
	problems := make([]problem, len(presets))
	err := inParallel(ctx, len(presets), func(ctx context.Context, i int) (err error) {
		file := presets[i]
		results[i], err = r.comparePreset(ctx, file)
		if found, ok := errors.AsType[problem](err); ok {
			problems[i] = found
			return nil
		}
		if err != nil {
			return fmt.Errorf("preset %s in workspace %s: %w", file.Slug, file.Workspace, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, change := range results {
		switch {
		case problems[i] != "":
			p.Errors = append(p.Errors, Problem{presets[i].Workspace, presets[i].Slug, string(problems[i])})
		case change == nil:
			p.Unchanged++
		case change.adopts:
			p.Adopt = append(p.Adopt, Adoption{presets[i].Workspace, presets[i].Slug, change})
		default:
			p.Changes = append(p.Changes, change)
		}
	}
	return nil
}

// addOthers adds what becomes of the presets of the owner that no file describes. With prune
// they are archived. Otherwise a note names them, for workspaces that have a folder.
func (p *Plan) addOthers(ctx context.Context, r *reader, set *files.Set, presets []*files.Preset, prune bool) error {
	type name struct{ workspace, slug string }
	described := make(map[name]bool, len(presets))
	for _, file := range presets {
		described[name{file.Workspace, file.Slug}] = true
	}
	for _, w := range r.workspaces {
		if !prune && !hasFolder(set, w.Slug) {
			continue
		}
		listed, err := r.list(ctx, w.ID, "")
		if err != nil {
			return fmt.Errorf("workspace %s: %w", w.Slug, err)
		}
		var others []string
		for _, entry := range listed {
			if described[name{w.Slug, entry.Slug}] || entry.ManagedBy == nil || *entry.ManagedBy != r.owner {
				continue
			}
			others = append(others, entry.Slug)
			if !prune {
				continue
			}
			if err := p.prune(ctx, r, w, entry.Slug); err != nil {
				return fmt.Errorf("preset %s in workspace %s: %w", entry.Slug, w.Slug, err)
			}
		}
		if !prune && len(others) > 0 {
			slices.Sort(others)
			p.Notes = append(p.Notes, Problem{Workspace: w.Slug, Message: "presets of " + r.owner + " without a file, which --prune archives: " + files.ShortList(others)})
		}
	}
	return nil
}

func hasFolder(set *files.Set, slug string) bool {
	return slices.ContainsFunc(set.Workspaces, func(w files.Workspace) bool { return w.Slug == slug })
}

// prune adds the archiving of a preset of the owner that no file describes.
func (p *Plan) prune(ctx context.Context, r *reader, w client.Workspace, slug string) error {
	current, err := r.preset(ctx, w.ID, slug)
	switch {
	case client.IsStatus(err, http.StatusNotFound): // somebody archived it
	case err != nil:
		return err
	case current.ManagedBy == nil || *current.ManagedBy != r.owner:
	case current.Status != domain.PresetActive:
		p.Notes = append(p.Notes, Problem{w.Slug, slug, "has no file and is disabled: it is left, since only an active preset can be archived"})
	default:
		change := newChange(w.Slug, slug, Archive)
		change.workspaceID, change.tag = w.ID, current.tag
		if change.Drift, err = r.hasDrifted(ctx, w.ID, current.Preset); err != nil {
			return err
		}
		p.Changes = append(p.Changes, change)
	}
	return nil
}
