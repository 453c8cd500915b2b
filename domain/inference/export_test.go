package inference

// SettingNames are the names that a policy can have for settings.
func SettingNames() []string { return settingNames() }

// ScalarPlaces returns how many places a bound of a name has.
func ScalarPlaces(name string) int { return len(scalarPlaces(name)) }
