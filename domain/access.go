package domain

import "github.com/caddy-presets/caddy-presets/domain/access"

// Who may do what, and how much: see package access.
type (
	// Principal is access.Principal.
	Principal = access.Principal
	// Scope is access.Scope.
	Scope = access.Scope
	// Right is access.Right.
	Right = access.Right
	// Key is access.Key.
	Key = access.Key
	// KeyKind is access.KeyKind.
	KeyKind = access.KeyKind
	// KeyHash is access.KeyHash.
	KeyHash = access.KeyHash
	// PreviousSecret is access.PreviousSecret.
	PreviousSecret = access.PreviousSecret
	// NewKey is access.NewKey.
	NewKey = access.NewKey
	// Interval is access.Interval.
	Interval = access.Interval
	// Limits is access.Limits.
	Limits = access.Limits
	// KeyLimits is access.KeyLimits.
	KeyLimits = access.KeyLimits
	// PresetLimits is access.PresetLimits.
	PresetLimits = access.PresetLimits
	// Budget is access.Budget.
	Budget = access.Budget
	// Budgets is access.Budgets.
	Budgets = access.Budgets
	// WorkspaceLimits is access.WorkspaceLimits.
	WorkspaceLimits = access.WorkspaceLimits
)

// The values of these types, and their bounds.
const (
	ManagementKey        = access.ManagementKey
	InferenceKey         = access.InferenceKey
	ProtectedLabels      = access.ProtectedLabels
	IssueKeys            = access.IssueKeys
	SkipLogging          = access.SkipLogging
	MaxScopePresets      = access.MaxScopePresets
	MaxScopeModels       = access.MaxScopeModels
	MaxKeyText           = access.MaxKeyText
	Daily                = access.Daily
	Weekly               = access.Weekly
	Monthly              = access.Monthly
	Lifetime             = access.Lifetime
	MaxLimit             = access.MaxLimit
	MaxLimitUSD          = access.MaxLimitUSD
	MinLimitUSD          = access.MinLimitUSD
	DefaultWorkspaceSlug = access.DefaultWorkspaceSlug
	ReferenceMark        = access.ReferenceMark
	MaxPresetSlug        = access.MaxPresetSlug
	PresetSlugRule       = access.PresetSlugRule
)

// Intervals are access.Intervals.
var Intervals = access.Intervals

// HashSecret is access.HashSecret.
func HashSecret(secret string) KeyHash { return access.HashSecret(secret) }

// CheckPresetSlug is access.CheckPresetSlug.
func CheckPresetSlug(slug string) error { return access.CheckPresetSlug(slug) }

// IsSlug is access.IsSlug.
func IsSlug(text string, most int) bool { return access.IsSlug(text, most) }

// ReadInterval is access.ReadInterval.
func ReadInterval(name string) (Interval, error) { return access.ReadInterval(name) }
