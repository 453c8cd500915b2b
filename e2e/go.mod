module github.com/caddy-presets/caddy-presets/e2e

go 1.26.0
