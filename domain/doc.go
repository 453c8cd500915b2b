// Package domain defines presets, workspaces and keys, and the rules that hold for them. It
// imports no package of HTTP, of Caddy or of a storage engine. Its errors name headers and
// parameters of the API. The Service applies the rules on top of a Store, which makes each
// change atomic. Package inference applies presets to requests.
package domain
