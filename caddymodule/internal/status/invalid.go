package status

import (
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// Invalid returns the domain's error for a body that breaks its schema.
func Invalid(broken *schema.Error) *domain.Error {
	issues := make([]domain.Issue, len(broken.Violations))
	for i, v := range broken.Violations {
		issues[i] = domain.Issue(v)
	}
	return domain.InvalidIssues(issues...)
}
