// Package openapi embeds the OpenAPI document of the module.
//
// A test of caddymodule generates openapi.yaml from the route tables, the schema files and
// base.yaml, which is written by hand:
//
//	go test ./caddymodule -run OpenAPI -update
package openapi

import _ "embed"

// Document is the OpenAPI document of all operations, in YAML.
//
//go:embed openapi.yaml
var Document []byte
