module github.com/caddy-presets/caddy-presets/faults

go 1.26.0
