module github.com/caddy-presets/caddy-presets/e2e

go 1.26.0

// eslint brings a Go package.
ignore node_modules

require (
	github.com/caddy-presets/caddy-presets v0.0.0
	go.yaml.in/yaml/v4 v4.0.0-rc.2
	golang.org/x/tools v0.52.0
)

require (
	github.com/DataDog/sketches-go v1.4.8 // indirect
	github.com/andybalholm/brotli v1.2.8 // indirect
	github.com/aymanbagabas/go-udiff v0.4.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/shopspring/decimal v1.4.0 // indirect
	github.com/wI2L/jsondiff v0.7.1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

require (
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0
)

replace github.com/caddy-presets/caddy-presets => ..
