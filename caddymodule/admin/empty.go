package admin

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refuseEmpty returns an error if a flag or an argument was given empty, as the shell writes a
// variable that is not set. Without the error, prune --workspace "$X" would prune every workspace,
// and key create --expires "$X" would issue a key for ever. No flag has a use for an empty text.
func refuseEmpty(cmd *cobra.Command, args []string) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		given := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		if err == nil && slices.Contains(given, "") {
			err = fmt.Errorf("--%s: must not be empty", flag.Name)
		}
	})
	if i := slices.Index(args, ""); err == nil && i >= 0 {
		err = fmt.Errorf("argument %d: must not be empty", i+1)
	}
	return err
}
