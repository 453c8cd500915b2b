// Package access has who may do what, and how much: the senders of requests, their keys, and limits.
package access

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain/modelpattern"
	"github.com/caddy-presets/caddy-presets/domain/problem"
)

// Issue is a broken rule.
type Issue = problem.Issue

// KeyKind is the permitted use of a key (specification, "Authentication").
type KeyKind string

const (
	// ManagementKey may manage workspaces and presets, and never infers.
	ManagementKey KeyKind = "management"
	// InferenceKey sends inference requests, in one workspace.
	InferenceKey KeyKind = "inference"
)

// Valid reports whether k is one of the two kinds.
func (k KeyKind) Valid() bool { return k == ManagementKey || k == InferenceKey }

// DefaultWorkspaceSlug is the slug of the workspace that always exists. Keys without a
// workspace of their own act in it.
const DefaultWorkspaceSlug = "default"

// Principal is the sender of a request, known by its key. It never holds the secret.
type Principal struct {
	// KeyID names the key in logs and records. A key of the configuration has a number,
	// which another key may have in another configuration.
	KeyID string
	// Hash is the hash of the key's secret. No two keys share it. It is zero for the
	// server itself.
	Hash KeyHash
	// UserID is the key's user. It is never empty.
	UserID string
	// Kind decides what the key may do.
	Kind KeyKind
	// WorkspaceID is the workspace the key acts in. If it is empty, WorkspaceSlug names the
	// workspace. If both are empty, it is the default one.
	WorkspaceID string
	// WorkspaceSlug is the workspace of a key from the configuration, which
	// may be written before the workspace exists.
	WorkspaceSlug string
	// Scope has the limits and the rights of an issued key. It is never changed. Nil, as
	// for a key of the configuration, limits nothing and stands for all rights.
	Scope *Scope
	// KeyLimits are those of an issued key, and are never changed. Nil, as for a key of the
	// configuration, is none. A larger Principal would cost each closure that has it an allocation.
	KeyLimits *KeyLimits
}

// WorkspaceRef returns the workspace that p acts in, by id or by slug.
func (p Principal) WorkspaceRef() (id, slug string) {
	switch {
	case p.WorkspaceID != "":
		return p.WorkspaceID, ""
	case p.WorkspaceSlug != "":
		return "", p.WorkspaceSlug
	default:
		return "", DefaultWorkspaceSlug
	}
}

// ErrOnlyManagement is the specification's answer to a key that lacks the
// permission ("Authentication", items 2 and 3).
var ErrOnlyManagement = &problem.Error{Kind: problem.Forbidden, Message: "Only management keys can perform this operation"}

// CheckInference returns a Forbidden error for a management key. Clients that call models
// should not have one.
func (p Principal) CheckInference() error {
	if p.Kind == ManagementKey {
		return &problem.Error{Kind: problem.Forbidden, Message: "Management keys cannot be used for inference"}
	}
	return nil
}

// CheckManagement returns a Forbidden error unless p has a management key.
func (p Principal) CheckManagement() error {
	if p.Kind != ManagementKey {
		return ErrOnlyManagement
	}
	return nil
}

// Right is a permission that a key has only if it was issued with it. Keys of the configuration
// have all rights. Each is for keys of one kind.
type Right string

// The rights.
const (
	// ProtectedLabels is the right to change protected labels and presets, and to set and clear
	// their protection.
	ProtectedLabels Right = "protected-labels"
	// IssueKeys is the right to see, issue, change and end inference keys of the workspaces that
	// the key reaches.
	IssueKeys Right = "issue-keys"
	// SkipLogging is the right of an inference key to send requests whose content is not logged.
	SkipLogging Right = "skip-logging"
)

// rights are all that a management key may have. An inference key may have SkipLogging.
var rights = []Right{ProtectedLabels, IssueKeys}

// Scope has what an issued key reaches, and its rights. The zero Scope limits nothing and
// has no right. It is never changed in place: a changed key has another.
type Scope struct {
	// Presets are the slugs of the only presets that an inference key reaches, at most
	// MaxScopePresets. Nil stands for all. They need not exist yet.
	Presets []string `json:"presets,omitempty"`
	// PresetRequired refuses inference requests that name no preset.
	PresetRequired bool `json:"preset_required,omitzero"`
	// Models are the patterns of the only models that a request may name, at most
	// MaxScopeModels. See modelpattern.Match. Nil stands for all. Presets may name others.
	Models []string `json:"models,omitempty"`
	// OnlyWorkspace hides all workspaces but its own from a management key.
	OnlyWorkspace bool `json:"only_workspace,omitzero"`
	// Rights are those of a management key, or SkipLogging.
	Rights []Right `json:"may,omitempty"`
}

// The bounds of a Scope's lists.
const (
	MaxScopePresets = 64
	MaxScopeModels  = 64
)

// unlimited is the Scope of an issued key that has none.
var unlimited Scope

// Check returns what is wrong with the scope of a key of a kind.
func (s Scope) Check(kind KeyKind) (issues []Issue) {
	issues = append(issues, checkList("/presets", s.Presets, MaxScopePresets, func(slug string) error {
		if CheckPresetSlug(slug) != nil {
			return errors.New("must be the slug of a preset")
		}
		return nil
	})...)
	issues = append(issues, checkList("/models", s.Models, MaxScopeModels, modelpattern.Check)...)
	issues = append(issues, checkList("/may", s.Rights, len(rights), func(right Right) error {
		switch ofManagement := slices.Contains(rights, right); {
		case !ofManagement && right != SkipLogging:
			return fmt.Errorf("must be %s, %s or %s", ProtectedLabels, IssueKeys, SkipLogging)
		case ofManagement && kind == InferenceKey:
			return errors.New("is for management keys only")
		case !ofManagement && kind == ManagementKey:
			return errors.New("is for inference keys only")
		}
		return nil
	})...)
	for _, limit := range []struct {
		path  string
		given bool
		of    KeyKind
	}{
		{"/presets", s.Presets != nil, InferenceKey},
		{"/preset_required", s.PresetRequired, InferenceKey},
		{"/models", s.Models != nil, InferenceKey},
		{"/only_workspace", s.OnlyWorkspace, ManagementKey},
	} {
		if limit.given && kind.Valid() && kind != limit.of {
			issues = append(issues, Issue{Path: limit.path, Message: fmt.Sprintf("is for %s keys only", limit.of)})
		}
	}
	return issues
}

// checkList returns what is wrong with a list of a Scope. An empty one could be meant as
// all or as nothing, so it is refused.
func checkList[T comparable](path string, list []T, most int, check func(T) error) (issues []Issue) {
	if list != nil && len(list) == 0 || len(list) > most {
		return []Issue{{Path: path, Message: fmt.Sprintf("must have 1 to %d elements", most)}}
	}
	for i, value := range list {
		err := check(value)
		if err == nil && slices.Contains(list[:i], value) {
			err = errors.New("is in the list already")
		}
		if err != nil {
			issues = append(issues, Issue{Path: path + "/" + strconv.Itoa(i), Message: err.Error()})
		}
	}
	return issues
}

// IsEmpty reports whether s limits nothing and has no right.
func (s Scope) IsEmpty() bool {
	return len(s.Presets) == 0 && len(s.Models) == 0 && len(s.Rights) == 0 && !s.PresetRequired && !s.OnlyWorkspace
}

// Cost is the memory of s in a cache, about, in bytes.
func (s *Scope) Cost() (size int) {
	if s == nil {
		return 0
	}
	for _, text := range slices.Concat(s.Presets, s.Models) {
		size += len(text) + 16
	}
	return size
}

// scope returns the limits of p. Keys of the configuration and the zero Principal have
// none.
func (p Principal) scope() *Scope {
	if p.Scope == nil {
		return &unlimited
	}
	return p.Scope
}

// OnlyWorkspace reports whether p reaches its own workspace alone.
func (p Principal) OnlyWorkspace() bool { return p.scope().OnlyWorkspace }

// ReachedPresets are the slugs of the only presets that p reaches, empty for all. They must not be changed.
func (p Principal) ReachedPresets() []string { return p.scope().Presets }

// ReachesPreset reports whether the presets that p reaches include the one of a slug, in
// the workspaces that p reaches. A preset out of reach must look as if it did not exist.
func (p Principal) ReachesPreset(slug string) bool {
	only := p.scope().Presets
	return len(only) == 0 || slices.Contains(only, slug)
}

// PresetRequired reports whether inference requests of p must name a preset.
func (p Principal) PresetRequired() bool { return p.scope().PresetRequired }

// ModelPatterns are the patterns of the models that requests of p may name, empty for all.
// They must not be changed.
func (p Principal) ModelPatterns() []string { return p.scope().Models }

// MayNameModel reports whether requests of p may name a model.
func (p Principal) MayNameModel(model string) bool {
	patterns := p.scope().Models
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool { return modelpattern.Match(pattern, model) })
}

// LimitsModels reports whether p may not use every model of the gateway by its name.
func (p Principal) LimitsModels() bool { return p.scope().PresetRequired || len(p.scope().Models) > 0 }

// MayUseModel reports whether requests of p may have an entry of a list of models. It is a
// model alone, or a reference to a preset.
func (p Principal) MayUseModel(id string) bool {
	if slug, isPreset := strings.CutPrefix(id, ReferenceMark); isPreset {
		return p.ReachesPreset(slug)
	}
	return !p.scope().PresetRequired && p.MayNameModel(id)
}

// IsLimited reports whether p has an inference key with any limit. It may only send requests that
// can be judged.
func (p Principal) IsLimited() bool { return p.LimitsModels() || len(p.scope().Presets) > 0 }

// CheckCreationAsInference returns a Forbidden error for an inference key with limits. Its own
// presets would lead around them.
func (p Principal) CheckCreationAsInference() error {
	if p.Kind != ManagementKey && p.IsLimited() {
		return ErrOnlyManagement
	}
	return nil
}

// CheckManagementOfAll returns a Forbidden error unless p has a management key that reaches
// every workspace.
func (p Principal) CheckManagementOfAll() error {
	if err := p.CheckManagement(); err != nil {
		return err
	}
	if p.scope().OnlyWorkspace {
		return ErrOnlyWorkspace
	}
	return nil
}

// ErrOnlyWorkspace refuses a key of one workspace.
var ErrOnlyWorkspace = &problem.Error{Kind: problem.Forbidden, Message: "The key manages one workspace only, and cannot perform this operation"}

// CheckBounding returns a Forbidden error unless p may change the limits of a preset, for which a key of one
// workspace needs the right IssueKeys.
func (p Principal) CheckBounding() error {
	if p.scope().OnlyWorkspace && !slices.Contains(p.Rights(), IssueKeys) {
		return ErrOnlyWorkspace
	}
	return nil
}

// Rights returns the rights of p: all, unless its key was issued with fewer. Only a management
// key has any.
func (p Principal) Rights() []Right {
	switch {
	case p.Kind != ManagementKey:
		return nil
	case p.Scope == nil:
		return rights
	default:
		return p.Scope.Rights
	}
}

// MaySkipLogging reports whether requests of p may ask not to be logged.
func (p Principal) MaySkipLogging() bool {
	return p.Kind == InferenceKey && (p.Scope == nil || slices.Contains(p.Scope.Rights, SkipLogging))
}

// CheckIssueKeys returns a Forbidden error unless p may see and change the inference keys of the
// workspaces that it reaches.
func (p Principal) CheckIssueKeys() error {
	if err := p.CheckManagement(); err != nil {
		return err
	}
	return p.Require(IssueKeys, "Keys cannot be managed")
}

// CheckGives returns a Forbidden error unless p may have a key of a scope, which may be nil: an issued key gives no rights, so it gets no
// secret of a key that has some, and changes none.
func (p Principal) CheckGives(s *Scope) error {
	if p.Scope != nil && s != nil && len(s.Rights) > 0 {
		return &problem.Error{Kind: problem.Forbidden, Message: fmt.Sprintf("The key has the right %s, which only the operator gives", s.Rights[0])}
	}
	return nil
}

// IsServer reports whether p is the server itself, such as its admin endpoint, and not a key.
func (p Principal) IsServer() bool { return p.Kind == ManagementKey && p.Hash == (KeyHash{}) }

// Require returns a Forbidden error unless p has a right. what is protected by it.
func (p Principal) Require(right Right, what string) error {
	if slices.Contains(p.Rights(), right) {
		return nil
	}
	return &problem.Error{Kind: problem.Forbidden, Message: fmt.Sprintf("%s: this needs a key with the right %s", what, right)}
}

// ReferenceMark begins a reference to a preset in a model's name.
const ReferenceMark = "@preset/"

// MaxPresetSlug is the greatest length of a preset's slug, in bytes.
const MaxPresetSlug = 128

// PresetSlugRule says in an error what a preset's slug must be.
const PresetSlugRule = "must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - and begin with a letter or digit"

// CheckPresetSlug returns an Invalid error if slug, already percent-decoded, cannot be
// used: see PresetSlugRule. Slugs are URL-safe, and case-sensitive.
func CheckPresetSlug(slug string) error {
	if !IsSlug(slug, MaxPresetSlug) {
		return problem.InvalidAt("slug", PresetSlugRule)
	}
	return nil
}

// IsSlug reports whether text is 1 to most characters of A-Z a-z 0-9 . _ ~ - and begins with a letter or digit, as slugs
// of presets and labels do. It is not a pattern, because each request with a preset asks, and that takes ten times as long.
func IsSlug(text string, most int) bool {
	for i := range len(text) {
		lower := text[i] | 0x20
		isAlphanumeric := '0' <= text[i] && text[i] <= '9' || 'a' <= lower && lower <= 'z'
		if !isAlphanumeric && (i == 0 || strings.IndexByte("._~-", text[i]) < 0) {
			return false
		}
	}
	return text != "" && len(text) <= most
}
