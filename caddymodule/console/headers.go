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

// deniedFeatures are the features that Chromium 119, 123, 148 and 156 all list in
// document.featurePolicy. Firefox and Safari do not read the header. Chromium warns of a
// name that its version does not know, so newer features and trials are not here.
var deniedFeatures = []string{
	"accelerometer",
	"autoplay",
	"camera",
	"ch-device-memory",
	"ch-downlink",
	"ch-dpr",
	"ch-ect", //nolint:misspell // the effective connection type
	"ch-prefers-color-scheme",
	"ch-prefers-reduced-motion",
	"ch-prefers-reduced-transparency",
	"ch-rtt",
	"ch-save-data",
	"ch-ua",
	"ch-ua-arch",
	"ch-ua-bitness",
	"ch-ua-full-version",
	"ch-ua-full-version-list",
	"ch-ua-mobile",
	"ch-ua-model",
	"ch-ua-platform",
	"ch-ua-platform-version",
	"ch-ua-wow64",
	"ch-viewport-height",
	"ch-viewport-width",
	"ch-width",
	"clipboard-read",
	"clipboard-write",
	"cross-origin-isolated",
	"display-capture",
	"encrypted-media",
	"fullscreen",
	"gamepad",
	"geolocation",
	"gyroscope",
	"hid",
	"identity-credentials-get",
	"idle-detection",
	"keyboard-map",
	"local-fonts",
	"magnetometer",
	"microphone",
	"midi",
	"otp-credentials",
	"payment",
	"picture-in-picture",
	"private-state-token-issuance",
	"private-state-token-redemption",
	"publickey-credentials-get",
	"screen-wake-lock",
	"serial",
	"storage-access",
	"sync-xhr",
	"unload",
	"usb",
	"window-management",
	"xr-spatial-tracking",
}
