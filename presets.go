// Package presets is a Caddy v2 module with an HTTP handler. It applies versioned model
// presets to requests for an AI gateway.
//
// Importing it adds four things to a Caddy build. These are the directive presets (module
// http.handlers.presets), the storage engine badger, the admin endpoint, and the command
// "caddy presets". Build it with:
//
//	xcaddy build --with github.com/caddy-presets/caddy-presets
//
// The parts are separate packages. domain has the rules. schema checks request bodies.
// storage has the engines. Only caddymodule knows Caddy.
package presets

import _ "github.com/caddy-presets/caddy-presets/caddymodule"
