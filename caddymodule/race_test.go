//go:build race

package caddymodule

func init() { raceEnabled = true }
