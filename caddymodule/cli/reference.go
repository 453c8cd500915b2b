package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/domain"
)

// SplitReference returns the slug and the version or label in the name of a preset: mail, @preset/mail,
// mail@2 or @preset/mail@staging. The version is empty if none is named.
func SplitReference(name string) (slug, version string, err error) {
	slug, version, isPinned := strings.Cut(strings.TrimPrefix(name, domain.ReferenceMark), "@")
	if isPinned && version == "" {
		return "", "", fmt.Errorf("%q names no version after the @", name)
	}
	return slug, version, nil
}

// SlugOf returns the slug in the name of a preset for a use, such as a flag, that has no version.
func SlugOf(name, use string) (string, error) {
	slug, version, err := SplitReference(name)
	if err == nil && version != "" {
		err = fmt.Errorf("%s takes no version: name the preset alone, as %s", use, slug)
	}
	return slug, err
}

// Where the version of a reference goes, beside a position among the arguments.
const (
	nowhere       = -1
	toVersionFlag = -2
)

// takesReference lets the first argument of a command be the name of a preset in any form of
// SplitReference. A version in it becomes the argument at a position, or goes where the constants say.
func takesReference(cmd *cobra.Command, at int) *cobra.Command {
	check, run := cmd.Args, cmd.RunE
	var plain []string
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		plain = slices.Clone(args)
		if len(args) == 0 {
			return check(cmd, args)
		}
		slug, version, err := SplitReference(args[0])
		if at == nowhere {
			slug, err = SlugOf(args[0], cmd.Name())
			version = ""
		}
		if err != nil {
			return err
		}
		plain[0] = slug
		switch {
		case version == "":
		case at == toVersionFlag && cmd.Flags().Changed("version"):
			return fmt.Errorf("the version is named twice: in %s and with --version", args[0])
		case at == toVersionFlag:
			if err := cmd.Flags().Set("version", version); err != nil {
				return err
			}
		default:
			plain = slices.Insert(plain, min(at, len(plain)), version)
		}
		return check(cmd, plain)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd, plain) }
	return cmd
}
