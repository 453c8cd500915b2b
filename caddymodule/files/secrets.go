package files

import (
	"bytes"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// secretForms are the forms of well-known keys. mark is in every text of the form.
var secretForms = []struct {
	mark    string
	pattern *regexp.Regexp
	name    string
}{
	{"caddypresets_", regexp.MustCompile(`caddypresets_(?:mgmt|inf)_[0-9A-Za-z]{16,}`), "a key of this server"},
	{"sk-", regexp.MustCompile(`(?:^|[^0-9A-Za-z_-])(sk-[0-9A-Za-z_-]{20,})`), "an API key (sk-…)"},
	{"AKIA", regexp.MustCompile(`(?:^|[^0-9A-Za-z])(AKIA[0-9A-Z]{16})(?:\b|_)`), "an AWS access key (AKIA…)"},
	{"ghp_", regexp.MustCompile(`(?:^|[^0-9A-Za-z_])(ghp_[0-9A-Za-z]{30,})`), "a GitHub token (ghp_…)"},
	{"PRIVATE KEY-----", regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----`), "a private key"},
}

// secret is a place in a text with the form of a well-known key.
type secret struct {
	start, end int
	name       string
}

// maxSecrets bounds the secrets that are found in a text.
const maxSecrets = 20

// secretsIn returns the first texts with the form of a key.
func secretsIn(text []byte) (found []secret) {
	for _, form := range secretForms {
		if !bytes.Contains(text, []byte(form.mark)) {
			continue
		}
		for _, m := range form.pattern.FindAllSubmatchIndex(text, -1) {
			start, end := m[len(m)-2], m[len(m)-1]                                       // of the group, or of the whole
			if form.mark == "sk-" && !bytes.ContainsAny(text[start:end], "0123456789") { // words with hyphens
				continue
			}
			if found = append(found, secret{start, end, form.name}); len(found) == maxSecrets {
				return found
			}
		}
	}
	return found
}

// withoutSecrets returns text with an ellipsis in the place of each secret.
func withoutSecrets(text string) string {
	for found := secretsIn([]byte(text)); len(found) > 0; found = secretsIn([]byte(text)) {
		text = text[:found[0].start] + "…" + text[found[0].end:]
	}
	return text
}

const secretMessage = "has the form of a secret, which does not belong into files: "

// findSecrets adds the secrets in the text of a file.
func (d *document) findSecrets(file string, text []byte) {
	for _, s := range secretsIn(text) {
		d.failed = true
		line, column := placeOf(text, s.start)
		d.mistakes.add(&Error{File: file, Line: line, Column: column, Message: secretMessage + s.name})
	}
}

// findSecretsBelow adds the secrets in the strings below n. Those that the text of the file
// shows as they are have been found by findSecrets. It is not ok after maxSecrets.
func (d *document) findSecretsBelow(n *yaml.Node) (ok bool) {
	if n.Kind == yaml.ScalarNode {
		text := []byte(n.Value)
		for _, s := range secretsIn(text) {
			if !bytes.Contains(d.text, text[s.start:s.end]) {
				d.mistake(n, nil, secretMessage+s.name)
			}
			if d.secrets++; d.secrets == maxSecrets {
				return false
			}
		}
	}
	for _, part := range n.Content {
		if !d.findSecretsBelow(part) {
			return false
		}
	}
	return true
}
