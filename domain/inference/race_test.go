//go:build race

package inference_test

func init() { raceEnabled = true }
