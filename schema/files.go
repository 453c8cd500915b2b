package schema

import (
	"io/fs"
	"strings"
)

// Files returns the schema files, without folders. Besides JSON Schema they use the
// keywords of this package.
func Files() fs.FS { return files }

// File returns the name of the schema's file.
func (s *Schema) File() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.root.Location, baseURL), "#")
}
