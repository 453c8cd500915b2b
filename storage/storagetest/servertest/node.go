package servertest

import (
	"os"
	"path/filepath"
	"testing"
)

// Node returns the path of Node.js. modules are those that npm must have installed in the present
// folder, as folder and name in turn. A test without one of them lacks it.
func Node(t testing.TB, modules ...string) string {
	t.Helper()
	for i := 0; i < len(modules); i += 2 {
		folder, module := modules[i], modules[i+1]
		if _, err := os.Stat(filepath.Join(filepath.FromSlash(folder), "node_modules", filepath.FromSlash(module), "package.json")); err != nil {
			Lack(t, "npm", "%s is not installed: npm install --prefix e2e/%s --ignore-scripts --no-package-lock", module, folder)
		}
	}
	return Tool(t, "node", "nodejs")
}
