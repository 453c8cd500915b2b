//go:build etcd

package main

// For several nodes that share presets: go build -tags etcd ./cmd/caddy
import _ "github.com/caddy-presets/caddy-presets/caddymodule/etcd"
