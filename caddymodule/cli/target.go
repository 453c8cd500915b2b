package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
)

const (
	// defaultServer is the origin of a server on this machine.
	defaultServer = "http://127.0.0.1:8080"
	// serverVariable is the environment variable with the origin of another one.
	serverVariable = "PRESETS_SERVER"
	// keyVariable is the environment variable with the management key.
	keyVariable = "PRESETS_KEY"
	// maxConnections is how many connections stay open between requests. A plan sends as many
	// at a time.
	maxConnections = 16
	// maxKeyFile bounds a file with a key, in bytes.
	maxKeyFile = 4 << 10
)

// target says which server a command speaks to, with which key, and how it prints.
type target struct {
	connection
	server string
	// keyFile is the file with the key. keyFlag names it, and keyVariable is the variable of the
	// environment with the key if no file is named.
	keyFile, keyFlag, keyVariable string
	// workspace is a slug or an id, empty for the key's own.
	workspace string
	asJSON    bool
}

// flags adds the flags of a command that works in a workspace with a management key.
func (t *target) flags(cmd *cobra.Command) {
	t.managementFlags(cmd)
	t.workspaceFlag(cmd)
}

func (t *target) workspaceFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.workspace, "workspace", "", "The slug or id of the workspace; default: that of the key")
	completeFlag(cmd, "workspace", t.complete(workspaces))
}

func (t *target) managementFlags(cmd *cobra.Command) {
	t.serverFlags(cmd, "management", "key-file", keyVariable)
}

// serverFlags adds the flags of the server and of the output to a command with a kind of key.
func (t *target) serverFlags(cmd *cobra.Command, kind, keyFlag, keyVariable string) {
	t.keyFlags(cmd, kind, keyFlag, keyVariable)
	cmd.Flags().BoolVar(&t.asJSON, "json", false, "Print JSON")
}

// keyFlags adds the flags of the server to a command with a kind of key.
func (t *target) keyFlags(cmd *cobra.Command, kind, keyFlag, keyVariable string) {
	t.keyFlag, t.keyVariable = keyFlag, keyVariable
	t.connectionFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&t.server, "server", cmp.Or(os.Getenv(serverVariable), defaultServer),
		"The origin of the server; with a path, if its base path is not /v1. "+serverVariable+" sets the default")
	flags.StringVar(&t.keyFile, keyFlag, "", "File with the "+kind+" key, - for standard input; default: the key in "+keyVariable)
	_ = cmd.MarkFlagFilename(keyFlag) // fails for an unknown flag only
}

func (t *target) client(cmd *cobra.Command) (*client.Client, error) {
	key, err := readKey(cmd, t.keyFlag, t.keyFile, t.keyVariable)
	if err != nil {
		return nil, err
	}
	transport, err := t.transport()
	if err != nil {
		return nil, err
	}
	return &client.Client{Origin: t.server, Key: key, Transport: transport, Timeout: t.timeout}, nil
}

// readKey returns the key in a file, which a flag names, or else in an environment variable.
// White space around it does not count. Errors never show it.
func readKey(cmd *cobra.Command, flag, file, variable string) (string, error) {
	place, text := variable, os.Getenv(variable)
	if file != "" {
		place = file
		var err error
		if text, err = readKeyFile(cmd, file); err != nil {
			return "", fmt.Errorf("reading the key: %w", err)
		}
	}
	key := strings.TrimSpace(text)
	switch {
	case key == "" && file == "":
		return "", fmt.Errorf("there is no key: set %s, or name a file with --%s", variable, flag)
	case key == "":
		return "", fmt.Errorf("there is no key in %s", place)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s must have one key and nothing else", place)
	}
	return key, nil
}

func readKeyFile(cmd *cobra.Command, name string) (string, error) {
	source := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		source = file
	}
	text, err := io.ReadAll(io.LimitReader(source, maxKeyFile+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxKeyFile {
		return "", errors.New(name + " is too long for a key")
	}
	return string(text), nil
}
