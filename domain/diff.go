package domain

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// Diff returns the difference between two versions of a preset. from and to are each the
// number of a version, or a label. A version that the preset does not have is NotFound. An
// empty value, or a label with a split, is Invalid; the error names the query parameter,
// from or to.
//
// The answer is an object. from and to are the versions' numbers. config is a JSON Patch
// (RFC 6902), as diff.JSON makes it. template is one of the templates; that of a version
// without one is null. system_prompt is a unified diff of the prompts, null if they are equal.
// A missing prompt equals an empty one.
func (s *Service) Diff(ctx context.Context, who Principal, workspace, slug, from, to string) (Found, error) {
	var source, target PresetVersion
	var workspaceID string
	err := s.store.View(ctx, func(r Reader) error {
		p, err := visiblePreset(r, who, workspace, slug)
		if err != nil {
			return err
		}
		workspaceID = p.WorkspaceID
		if source, err = namedVersion(r, p, from, "from"); err != nil {
			return err
		}
		target, err = namedVersion(r, p, to, "to")
		return err
	})
	if err != nil {
		return Found{}, err
	}
	answer := VersionDiff{From: source.Version, To: target.Version}
	if answer.Config, err = diff.JSON(source.Config, target.Config); err != nil {
		return Found{}, fmt.Errorf("comparing two configs: %w", err)
	}
	if answer.Template, err = diff.JSON(source.Template.JSON(), target.Template.JSON()); err != nil {
		return Found{}, fmt.Errorf("comparing two templates: %w", err)
	}
	label := func(v PresetVersion) string { return slug + "@" + strconv.Itoa(v.Version) }
	if answer.SystemPrompt, err = diff.Text(label(source), label(target), ValueOr(source.SystemPrompt, ""), ValueOr(target.SystemPrompt, "")); err != nil {
		return Found{}, fmt.Errorf("comparing two prompts: %w", err)
	}
	text, err := diff.Marshal(answer)
	return tagged(Found{JSON: text, WorkspaceID: workspaceID, Number: target.Version}), err
}

// VersionDiff is the difference between two versions, as clients see it.
type VersionDiff struct {
	From   int              `json:"from"` // the number of a version, as To
	To     int              `json:"to"`
	Config []diff.Operation `json:"config"`
	// SystemPrompt is nil if the prompts are equal.
	SystemPrompt *string          `json:"system_prompt"`
	Template     []diff.Operation `json:"template"`
}

// namedVersion returns the version of p that a query parameter names by number or label.
func namedVersion(r Reader, p Preset, name, parameter string) (v PresetVersion, err error) {
	n, fits := ParseNumber(name)
	switch isNumber := strings.Trim(name, "0123456789") == ""; {
	case name == "" || !isNumber && !IsSlug(name, maxLabel):
		return v, InvalidAt(parameter, "must be the number of a version, or a label")
	case !isNumber:
		if n, err = p.versionOfLabel(name, parameter); err != nil {
			return v, err
		}
	case name[0] == '0':
		return v, InvalidAt(parameter, "must be a positive number without leading zeros, or a label")
	case !fits: // it is higher than that of any version
		return v, errNoSuchVersion(parameter)
	}
	return versionOf(r, p, n, parameter)
}
