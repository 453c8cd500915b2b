// Package presets puts versioned model presets and workspaces in front of any
// AI gateway, as an HTTP handler module for Caddy v2.
//
// Importing it adds the presets directive (module http.handlers.presets), its
// default storage engine, the admin endpoint and the "caddy presets" command
// to a Caddy build:
//
//	xcaddy build --with github.com/caddy-presets/caddy-presets
//
// The parts stand in their own packages: domain holds the rules, schema checks
// request bodies, storage keeps what is stored, and caddymodule is the only
// one that knows Caddy.
package presets

import _ "github.com/caddy-presets/caddy-presets/caddymodule"
