//go:build race

package domain_test

func init() { raceEnabled = true }
