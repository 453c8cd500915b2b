package schema

import (
	"io/fs"
	"strings"
)

// Files returns the schema files, without folders, for those who show the rules
// to others. Besides JSON Schema they use the keywords of this package.
func Files() fs.FS { return files }

// File returns the name of the file that s was compiled from.
func (s *Schema) File() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.root.Location, baseURL), "#")
}
