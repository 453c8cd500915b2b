// Command caddy is stock Caddy with the presets handler and both storage engines, for tests
// and benchmarks of a checkout. Releases are built with xcaddy.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-presets/caddy-presets"
	_ "github.com/caddy-presets/caddy-presets/caddymodule/etcd"
)

func main() { caddycmd.Main() }
