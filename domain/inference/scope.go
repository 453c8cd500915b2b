package inference

import (
	"fmt"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// checkScope checks the limits of a key that concern a request alone. It returns an Invalid
// error if the request must name a preset. It returns a Forbidden error if the request
// names a model that the key may not use.
func checkScope(who domain.Principal, request *parsedRequest, sent Request) error {
	if who.PresetRequired() && !request.found {
		return domain.InvalidAt("/preset", "must name a preset, as the key serves no other requests")
	}
	patterns := who.ModelPatterns()
	switch {
	case len(patterns) > 0:
	case who.PresetRequired():
		return checkFields(sent, whereRequired)
	default:
		return nil
	}
	if err := checkReadable(sent, whereLimited); err != nil {
		return err
	}
	place, model, err := findModel(sent.Body, who.MayNameModel)
	switch {
	case err != nil:
		return unreadable(err, whereLimited)
	case model == "":
		return nil
	}
	rule := "must match " + patternList(patterns)
	forbidden := &domain.Error{Kind: domain.Forbidden, Code: domain.ModelNotAllowed, Message: "Model not allowed: " + rule}
	if place != "" {
		forbidden.Message = "Model not allowed: " + place + ": " + rule
		forbidden.Issues = []domain.Issue{{Path: place, Message: rule}}
	}
	return forbidden
}

// maxPatternsShown bounds the patterns in an error.
const maxPatternsShown = 4

func patternList(patterns []string) string {
	if more := len(patterns) - maxPatternsShown; more > 0 {
		return fmt.Sprintf("%s or %d more", strings.Join(patterns[:maxPatternsShown], ", "), more)
	}
	return strings.Join(patterns, " or ")
}
