package ownkeys

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// ExpandSecret returns the secret that a placeholder gives. Errors name the placeholder alone.
func ExpandSecret(repl *caddy.Replacer, placeholder string) (string, error) {
	secret, err := repl.ReplaceOrErr(placeholder, true, true)
	if err != nil {
		return "", err
	}
	secret = strings.TrimSpace(secret) // a file ends in a line break
	if err := CheckSecret(secret); err != nil {
		return "", fmt.Errorf("%s: %w", placeholder, err)
	}
	return secret, nil
}

// IsPlaceholder reports whether text is one placeholder.
func IsPlaceholder(text string) bool {
	inner, ok := strings.CutPrefix(text, "{")
	if !ok {
		return false
	}
	inner, ok = strings.CutSuffix(inner, "}")
	return ok && inner != "" && !strings.ContainsAny(inner, "{}")
}

// CheckSecret refuses secrets that can be guessed or cannot be sent as a bearer token.
func CheckSecret(secret string) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("the secret must be at least %d characters", MinSecret)
	}
	if len(secret) > MaxSecret {
		return fmt.Errorf("the secret must be at most %d characters", MaxSecret)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("the secret must be printable ASCII without spaces")
	}
	return nil
}
