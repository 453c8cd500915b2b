package caddymodule

import (
	"net/http"

	"github.com/caddy-presets/caddy-presets/openapi"
)

// serveOpenAPI answers with the OpenAPI document.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request, _ []string) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, err := w.Write(openapi.Document)
	return err
}
