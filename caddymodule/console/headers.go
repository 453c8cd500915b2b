package console

import "strings"

// securityHeaders are on every answer of the page.
//
// The policy forbids inline scripts and styles, other origins, and text that becomes code
// or HTML. So a prompt that holds markup can do nothing.
var securityHeaders = map[string]string{
	"Content-Security-Policy": strings.Join([]string{
		"default-src 'none'",
		"script-src 'self'",
		"style-src 'self'",
		"connect-src 'self'",
		"img-src 'self' data:",
		"font-src 'self'",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; "),
	"Cross-Origin-Opener-Policy": "same-origin",
	"Permissions-Policy":         strings.Join(deniedFeatures, "=(), ") + "=()",
	"Referrer-Policy":            "no-referrer",
	"X-Content-Type-Options":     "nosniff",
}

// isForAssets tells whether an asset has a header of securityHeaders. The others are for documents,
// and would be most of what is sent for a small module. A script, a style or a picture is shown as
// text or as it is, unless the page that has the policy uses it.
func isForAssets(name string) bool {
	return name == "X-Content-Type-Options"
}

// deniedFeatures are what reads devices, accounts or the user's other data, as far as Chromium knows
// it. Chromium warns of a name that its version does not know. Firefox and Safari do not read the header.
var deniedFeatures = strings.Fields(`
	accelerometer camera clipboard-read display-capture geolocation gyroscope hid identity-credentials-get idle-detection
	local-fonts magnetometer microphone midi otp-credentials payment publickey-credentials-get serial storage-access usb window-management
`)
