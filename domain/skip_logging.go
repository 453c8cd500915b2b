package domain

import "slices"

// SkipLogging is the right of an inference key to send requests whose content is not logged.
const SkipLogging Right = "skip-logging"

// MaySkipLogging reports whether requests of p may ask not to be logged.
func (p Principal) MaySkipLogging() bool {
	return p.Kind == InferenceKey && (p.Scope == nil || slices.Contains(p.Scope.Rights, SkipLogging))
}
