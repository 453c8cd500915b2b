package files

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// maxSecrets bounds the secrets that are found in a text.
const maxSecrets = 20

func secretsIn(text []byte) []secrets.Known { return secrets.FindKnown(text, maxSecrets) }

// withoutSecrets returns text with an ellipsis in the place of each secret.
func withoutSecrets(text string) string {
	for found := secretsIn([]byte(text)); len(found) > 0; found = secretsIn([]byte(text)) {
		text = text[:found[0].Start] + "…" + text[found[0].End:]
	}
	return text
}

const secretMessage = "has the form of a secret, which does not belong into files: "

// findSecrets adds the secrets in the text of a file.
func (d *document) findSecrets(file string, text []byte) {
	for _, s := range secretsIn(text) {
		d.failed = true
		line, column := placeOf(text, s.Start)
		d.mistakes.add(&Error{File: file, Line: line, Column: column, Message: secretMessage + s.Name})
	}
}

// findSecretsBelow adds the secrets in the strings below n. Those that the text of the file
// shows as they are have been found by findSecrets. It is not ok after maxSecrets.
func (d *document) findSecretsBelow(n *yaml.Node) (ok bool) {
	if n.Kind == yaml.ScalarNode {
		text := []byte(n.Value)
		for _, s := range secretsIn(text) {
			if !bytes.Contains(d.text, text[s.Start:s.End]) {
				d.mistake(n, nil, secretMessage+s.Name)
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
