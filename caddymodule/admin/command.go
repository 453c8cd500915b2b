package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/cli"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "presets",
		Usage: "<command>",
		Short: "Shows, tries and changes presets, and manages the keys and the store of the presets handler",
		Long: `
Commands for presets speak the public API of any server that --server names, with the key in
PRESETS_KEY.

Commands for keys and the store call the admin endpoint of a running Caddy. salvage, and
restore with --folder, work without a server, on the folder of a store. verify does so if it
is given a folder or a backup. version needs neither.`,
		CobraFunc: addCommands,
	})
}

func addCommands(presets *cobra.Command) {
	const server = "server"
	presets.AddGroup(cli.Groups()...)
	presets.AddGroup(&cobra.Group{ID: server, Title: "Keys and store, over Caddy's admin endpoint:"})
	for _, command := range []*cobra.Command{
		keyCommand(), auditCommand(), backupCommand(), restoreCommand(), verifyCommand(), salvageCommand(), pruneCommand(), eraseCommand(),
		healthCommand(), versionCommand(),
	} {
		command.GroupID = server
		presets.AddCommand(command)
	}
	presets.AddCommand(cli.Commands()...)
	presets.PersistentPreRunE = refuseEmpty
	cli.RefuseUnknown(presets)
}

// client calls the admin endpoint of the running server. Flags tell where that server is.
type client struct{ address, config, adapter, store string }

// flags adds the flags that say where the server is to a command and its subcommands.
func (t *client) flags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&t.address, "address", "", "The address of the admin endpoint; overrides --config")
	flags.StringVar(&t.config, "config", "", "Configuration file that names the admin endpoint")
	flags.StringVar(&t.adapter, "adapter", "", "Name of the config adapter")
	flags.StringVar(&t.store, "store", "", "The store to use, if several are live")
}

// call sends body as JSON, unless it is nil, and decodes the response.
func call[T any](t *client, method, path string, body any) (answer T, err error) {
	var text io.Reader
	if body != nil {
		encoded, err := jsonv2.Marshal(body)
		if err != nil {
			return answer, err
		}
		text = bytes.NewReader(encoded)
	}
	response, err := t.send(method, path, nil, text)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	err = jsonv2.UnmarshalRead(response.Body, &answer)
	return answer, err
}

// output prints a value as JSON, or as text.
func output(cmd *cobra.Command, asJSON bool, value any, text func(io.Writer) error) error {
	if asJSON {
		return jsonv2.MarshalWrite(cmd.OutOrStdout(), value)
	}
	return text(cmd.OutOrStdout())
}

// send sends a request, whose path may have a query. The caller closes the successful response.
func (t *client) send(method, path string, headers http.Header, body io.Reader) (*http.Response, error) {
	address, err := adminAddress(t.address)
	if err != nil {
		return nil, err
	}
	if address, err = caddycmd.DetermineAdminAPIAddress(address, nil, t.config, t.adapter); err != nil {
		return nil, fmt.Errorf("finding the admin endpoint: %w", err)
	}
	if t.store != "" {
		separator := "?"
		if strings.Contains(path, separator) {
			separator = "&"
		}
		path += separator + "store=" + url.QueryEscape(t.store)
	}
	response, err := caddycmd.AdminAPIRequest(address, method, path, headers, body)
	if err != nil && strings.Contains(err.Error(), ": dial ") {
		return nil, fmt.Errorf("the admin endpoint %s cannot be reached; --address, --config or CADDY_ADMIN names another: %w", address, err)
	}
	return response, plainAdminError(err)
}

// adminAddress returns --address in the form that Caddy wants. A URL may have host and port alone.
func adminAddress(given string) (string, error) {
	if !strings.Contains(given, "://") {
		return given, nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("--address wants the host and port of the admin endpoint, such as 127.0.0.1:2019, or its socket, such as unix//run/caddy.sock")
	}
	return u.Host, nil
}

// adminRefusal matches a refusal by the admin endpoint, as Caddy's client reports it.
var adminRefusal = regexp.MustCompile(`(?s)^caddy responded with error: HTTP \d+: (.*)$`)

// plainAdminError returns the message of the admin endpoint in err, or else err.
func plainAdminError(err error) error {
	if err == nil {
		return nil
	}
	var refusal struct {
		Message string `json:"error"`
	}
	parts := adminRefusal.FindStringSubmatch(err.Error())
	if parts == nil || jsonv2.Unmarshal([]byte(parts[1]), &refusal) != nil || refusal.Message == "" {
		return err
	}
	return errors.New(refusal.Message)
}

func timeOr(at *time.Time, otherwise string) string {
	if at == nil {
		return otherwise
	}
	return at.Format(time.RFC3339)
}
