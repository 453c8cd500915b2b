package inference

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/servertools"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// checkUnresolved checks a request that names no preset. A workspace that does not exist has disabled
// nothing. While the store is unavailable, a request passes if it certainly uses no server tool.
func (r *Resolver) checkUnresolved(ctx context.Context, m *merger, sent Request) error {
	workspace, _, err := r.workspace(ctx, m.rules.Who)
	isDown := errors.Is(err, domain.ErrUnavailable)
	switch {
	case err == nil:
		m.workspace, m.rules.Disabled = workspace, workspace.disabledTools
	case isDown:
		m.rules.Disabled = servertools.Names
	case domain.KindOf(err) != domain.NotFound:
		return err
	}
	if refused := m.rules.Admit(sent.Body, sent.Query, sent.OtherType); refused != nil && (!isDown || m.rules.Who.IsLimited()) {
		return refused
	} else if refused != nil || isDown && m.rules.CheckTools(m.request.Fields) != nil {
		return err
	}
	return m.rules.CheckTools(m.request.Fields)
}

// CheckUnresolvedRoute returns a Forbidden error if the workspace of who has disabled any
// server tool. It is for routes whose requests are not searched, since these could use one.
// A workspace that does not exist has disabled nothing.
func (r *Resolver) CheckUnresolvedRoute(ctx context.Context, who domain.Principal) error {
	workspace, _, err := r.workspace(ctx, who)
	switch {
	case domain.KindOf(err) == domain.NotFound:
		return nil
	case err == nil && len(workspace.disabledTools) > 0:
		return &domain.Error{Kind: domain.Forbidden, Code: domain.ToolDisabled, Message: "This route cannot be used in a workspace where server tools are disabled"}
	}
	return err
}

// checkMerged is policy.Check.CheckTools for a merged request, with a template's messages.
func (m *merger) checkMerged() error {
	if len(m.rules.Disabled) == 0 {
		return nil
	}
	fields := make([]rawjson.Member, 0, len(m.Parts)+1)
	for _, p := range m.Parts {
		fields = append(fields, p.Member)
	}
	if len(m.messages) > 0 {
		for _, text := range m.messages { // one by one, as an int may be too small for the sum
			if err := m.Reserve(len(text)); err != nil {
				return err
			}
		}
		list := slices.Concat(slices.Concat([]jsontext.Value{{'['}}, m.messages, []jsontext.Value{{']'}})...)
		if err := m.rules.CheckItems(list); err != nil {
			return err
		}
		fields = append(fields, rawjson.Member{Name: "input", Value: list})
	}
	return m.rules.CheckTools(fields)
}
