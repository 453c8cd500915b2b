module github.com/caddy-presets/caddy-presets/faults

go 1.26.0

require github.com/anishathalye/porcupine v1.3.1
