// Command caddy is stock Caddy with the presets handler compiled in.
package main

import (
	_ "time/tzdata"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-presets/caddy-presets"
)

func main() { caddycmd.Main() }
