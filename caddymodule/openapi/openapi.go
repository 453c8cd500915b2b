// Package openapi embeds the OpenAPI documents of the module.
//
// They are generated from the route tables, the schema files and the other files of this folder, which
// are written by hand. The schemas in schema/files are generated from the documents.
package openapi

import _ "embed"

//go:generate go test github.com/caddy-presets/caddy-presets/caddymodule -run ^TestOpenAPIFiles$ -update
//go:generate go test github.com/caddy-presets/caddy-presets/caddymodule/files -run ^TestPublishedSchemas$ -update

// Document is the OpenAPI document of presets, workspaces and inference, in YAML.
//
//go:embed openapi.yaml
var Document []byte

// AdminDocument is the OpenAPI document of the admin endpoint, in YAML.
//
//go:embed openapi-admin.yaml
var AdminDocument []byte
