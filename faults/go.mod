module github.com/caddy-presets/caddy-presets/faults

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/caddy-presets/caddy-presets v0.0.0
)

replace github.com/caddy-presets/caddy-presets => ..
