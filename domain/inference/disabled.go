package inference

import (
	"context"
	"errors"

	"github.com/caddy-presets/caddy-presets/domain"
)

// checkUnresolved checks a request that names no preset. A workspace that does not exist has disabled
// nothing. While the store is unavailable, a request passes if it certainly uses no server tool.
func (r *Resolver) checkUnresolved(ctx context.Context, m *merger, sent Request) error {
	workspace, err := r.workspace(ctx, m.who)
	isDown := errors.Is(err, domain.ErrUnavailable)
	switch {
	case err == nil:
		m.disabled = workspace.disabledTools
	case isDown:
		m.disabled = allServerTools
	case domain.KindOf(err) != domain.NotFound:
		return err
	}
	if refused := m.admit(sent); refused != nil && (!isDown || m.who.IsLimited()) {
		return refused
	} else if refused != nil || isDown && m.checkTools(m.request.fields) != nil {
		return err
	}
	return m.checkTools(m.request.fields)
}

// CheckUnresolvedRoute returns a Forbidden error if the workspace of who has disabled any
// server tool. It is for routes whose requests are not searched, since these could use one.
// A workspace that does not exist has disabled nothing.
func (r *Resolver) CheckUnresolvedRoute(ctx context.Context, who domain.Principal) error {
	workspace, err := r.workspace(ctx, who)
	switch {
	case domain.KindOf(err) == domain.NotFound:
		return nil
	case err == nil && len(workspace.disabledTools) > 0:
		return &domain.Error{Kind: domain.Forbidden, Code: domain.ToolDisabled, Message: "This route cannot be used in a workspace where server tools are disabled"}
	}
	return err
}
