package plan

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
)

// Result is what Apply did.
type Result struct {
	// Done is how many presets and workspaces are now as the files say.
	Done int
	// Failed are those that are not, sorted by workspace and slug. Requests before the failing
	// one may have been made.
	Failed []Failure
}

// Failure is a preset or a workspace that could not be changed.
type Failure struct {
	Problem
	// Conflict is set if somebody else changed it after the plan. Nothing of that was
	// overwritten, and another plan shows it.
	Conflict bool `json:"conflict"`
	// Err is the error of the request that failed.
	Err error `json:"-"`
}

// changers is how many presets are changed at a time.
const changers = 8

// errHasErrors is the answer to a plan with Errors.
var errHasErrors = errors.New("the plan has errors, so nothing is applied")

// Apply makes the changes of the plan, each only if the object is still as it was planned.
// Several presets are changed at a time, and the requests about one are in order. After a
// failure of one the others go on. Presets are archived last, and only if nothing failed. A
// preset that replaces an archived one must be there first. If ctx ends, Apply stops between
// two requests, and returns its error. Applying a new plan then completes the work. Nothing is
// done twice.
//
// A plan is applied once. One with Errors is not applied. message is the reason of new versions, empty for
// none; earlier versions have their own.
func (p *Plan) Apply(ctx context.Context, message string) (Result, error) {
	if len(p.Errors) > 0 {
		return Result{}, errHasErrors
	}
	a := &applier{plan: p, message: message, ids: make(map[string]string), refused: make(map[string]error)}
	for _, w := range p.Workspaces {
		err := a.applyWorkspace(ctx, w)
		a.refused[w.Slug] = err
		a.finish(w.Slug, "", err)
	}
	var group errgroup.Group
	group.SetLimit(changers)
	apply := func(c *Change) {
		group.Go(func() error {
			a.finish(c.Workspace, c.Slug, a.applyChange(ctx, c))
			return nil
		})
	}
	var archived []*Change
	for _, c := range p.Changes {
		if c.Action == Archive {
			archived = append(archived, c)
			continue
		}
		apply(c)
	}
	for _, adoption := range p.Adopt {
		apply(adoption.change)
	}
	_ = group.Wait() // no function fails
	isComplete := len(a.result.Failed) == 0
	for _, c := range archived {
		if isComplete {
			apply(c)
		} else {
			a.finish(c.Workspace, c.Slug, errHeld)
		}
	}
	_ = group.Wait()
	slices.SortStableFunc(a.result.Failed, func(a, b Failure) int { return compareProblems(a.Problem, b.Problem) })
	return a.result, ctx.Err()
}

// errHeld is the outcome for a preset that is not archived, since something failed before.
var errHeld = errors.New("is not archived, since not all of the other changes were made")

type applier struct {
	plan    *Plan
	message string

	// ids are those of new workspaces, by slug, and refused why some could not be made. They do not
	// change while presets are changed.
	ids     map[string]string
	refused map[string]error

	mu     sync.Mutex
	result Result
}

// errStopped is the outcome of a change that was not completed, since the context ended.
var errStopped = errors.New("stopped")

// orStopped returns the outcome of a change after a read failed.
func orStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errStopped
	}
	return err
}

func (a *applier) finish(workspace, slug string, err error) {
	if errors.Is(err, errStopped) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.result.Done++
		return
	}
	failure := Failure{Problem: Problem{workspace, slug, err.Error()}, Err: err}
	_, failure.Conflict = errors.AsType[conflict](err)
	if refused, ok := errors.AsType[*client.Error](err); ok {
		switch refused.Status {
		case http.StatusPreconditionFailed:
			failure.Conflict, failure.Message = true, errChanged.Error()
		case http.StatusNotFound:
			failure.Conflict, failure.Message = true, "was archived or removed by somebody else after the plan: plan again ("+refused.Message+")"
		case http.StatusConflict:
			failure.Conflict = true
		}
	}
	a.result.Failed = append(a.result.Failed, failure)
}

// workspaceOf returns the id of a change's workspace.
func (a *applier) workspaceOf(c *Change) (string, error) {
	if c.workspaceID != "" {
		return c.workspaceID, nil
	}
	if id, ok := a.ids[c.Workspace]; ok {
		return id, nil
	}
	return "", fmt.Errorf("its workspace could not be created: %w", a.refused[c.Workspace])
}

// conflict is the outcome for an object that somebody else changed. Another plan shows the change.
type conflict string

func (c conflict) Error() string { return string(c) }

// errChanged is the outcome for an object that somebody else changed after the plan.
const errChanged = conflict("was changed by somebody else after the plan: nothing was overwritten, plan again")

func (a *applier) applyWorkspace(ctx context.Context, w *Workspace) error {
	s := sequence{applier: a, tag: w.tag, workspaceID: w.id}
	if w.Action == Update {
		_, err := s.send(ctx, client.Request{Method: http.MethodPatch, Path: "/workspaces/" + url.PathEscape(w.id), Body: w.body}, ifMatch(w.tag))
		return err
	}
	var created client.Workspace
	response, err := s.send(ctx, client.Request{Method: http.MethodPost, Path: "/workspaces", Body: w.body}, ifNew)
	if err == nil {
		err = client.Decode(response.Data, &created)
	}
	if client.IsStatus(err, http.StatusBadRequest) { // the file was checked
		return conflict("cannot be made, and somebody else may have made it after the plan: plan again (" + err.Error() + ")")
	}
	if err != nil {
		return err
	}
	a.ids[w.Slug] = created.ID
	return nil
}

func (a *applier) applyChange(ctx context.Context, c *Change) error {
	id, err := a.workspaceOf(c)
	if err != nil {
		return err
	}
	s := sequence{applier: a, tag: c.tag, workspaceID: id, slug: c.Slug, isNew: c.Action == Create}
	switch c.Action {
	case Archive:
		_, err := s.send(ctx, client.Request{Method: http.MethodDelete, Path: client.PresetPath(c.Slug)}, ifMatch(c.tag))
		return err
	case Restore:
		return a.restore(ctx, &s, c)
	default:
		return s.update(ctx, c)
	}
}

// restore restores a preset, and brings it up to date. It archives the preset again if the
// file does not fit it. After another error the preset stays restored, and the next run goes
// on.
func (a *applier) restore(ctx context.Context, s *sequence, c *Change) error {
	// An archived preset does not exist for clients, until somebody else restores it.
	response, err := s.send(ctx, client.Request{Method: http.MethodPost, Path: client.PresetPath(c.Slug, "restore")}, ifNew)
	if err != nil {
		return err
	}
	var restored preset
	if err := client.Decode(response.Data, &restored); err != nil {
		return err
	}
	restored.tag = response.Tag()
	r := &reader{client: a.plan.client, owner: a.plan.Owner}
	change, err := r.compareExisting(ctx, c.file, s.workspaceID, restored)
	if _, ok := errors.AsType[problem](err); ok {
		_, failed := s.send(context.WithoutCancel(ctx), client.Request{Method: http.MethodDelete, Path: client.PresetPath(c.Slug)}, ifMatch(restored.tag))
		if failed != nil {
			return fmt.Errorf("%w; and archiving the preset again failed: %w", err, failed)
		}
		return fmt.Errorf("%w: the preset stays archived", err)
	}
	if err != nil {
		return orStopped(ctx, err)
	}
	if change == nil {
		return nil
	}
	s.tag = restored.tag
	return s.update(ctx, change)
}
