// Package domain defines presets, workspaces and keys, and the rules that hold for
// them. It knows neither HTTP nor Caddy nor a storage engine. The Service applies the
// rules on top of a Store, which makes each change atomic. Package inference applies
// presets to requests.
package domain
