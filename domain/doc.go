// Package domain is what presets, workspaces and keys are, and the rules that
// hold for them. It knows neither HTTP nor Caddy nor a storage engine: the
// Service applies the rules on top of a Store, which makes a change atomic, and
// the Resolver merges stored presets into inference requests.
package domain
