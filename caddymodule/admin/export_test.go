package admin

import (
	"bytes"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// These are exports for the tests that run Caddy, which are in another package.
type (
	AuditPage = auditPage
	IssuedKey = issuedKey
)

const MaxBody = maxBody

var (
	Operator   = operator
	PlainError = plainAdminError

	AddCommands = addCommands
)

// Run runs caddy presets as the shell would, with nothing on standard input.
func Run(args ...string) (out, errOut string, err error) {
	return RunWith(strings.NewReader(""), args...)
}

// RunWith is Run with some standard input.
func RunWith(stdin io.Reader, args ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := &cobra.Command{SilenceUsage: true} // as Caddy's own
	addCommands(cmd)
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err = cmd.Execute()
	return stdout.String(), stderr.String(), err
}

// BackupInto backs up to a writer.
func BackupInto(address string, to io.Writer) error {
	_, _, err := (&client{address: address}).backupTo(io.Discard, to, nil)
	return err
}
