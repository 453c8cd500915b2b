package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func healthCommand() *cobra.Command {
	var target client
	command := &cobra.Command{
		Use:   "health",
		Short: "Tells whether the stores of a running server can be read",
		Long: `
Asks GET /presets/health of the admin endpoint, and prints a line for each store. The exit
code is 0 if all stores can be read. It is 1 if one cannot, or if no server answers. It is
made for the health check of a container.

A store that refuses changes, or has damaged records, can still be read. Its line says so.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := target.health()
			if err != nil {
				return err
			}
			return state.print(cmd.OutOrStdout())
		},
	}
	target.flags(command)
	return command
}

func (t *client) health() (state health, err error) {
	response, err := t.send(http.MethodGet, Path+"health", nil, nil)
	if err != nil {
		// Caddy's client makes an error of the answer 503, with its body.
		parts := adminRefusal.FindStringSubmatch(err.Error())
		if parts == nil || jsonv2.Unmarshal([]byte(parts[1]), &state) != nil || state.Stores == nil {
			return state, err
		}
		return state, nil
	}
	defer response.Body.Close()
	err = jsonv2.UnmarshalRead(response.Body, &state)
	return state, err
}

// print writes a line for each store. It returns an error if one cannot be read.
func (h health) print(w io.Writer) error {
	for _, store := range h.Stores {
		state := "available"
		switch {
		case !store.Available:
			state = "not available"
		case !store.Writable:
			state += ", refuses changes"
		}
		if store.Damaged {
			state += ", damaged"
		}
		if store.Error != "" {
			state += ": " + store.Error
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", store.Name, state); err != nil {
			return err
		}
	}
	switch {
	case len(h.Stores) == 0:
		return errors.New("no store is live: the running configuration has no presets directive")
	case !h.Healthy:
		return errors.New("a store is not available")
	}
	return nil
}
