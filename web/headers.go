package web

import "net/http"

// securityHeaders are on every answer. The pages bring all they need along, so
// a browser may load nothing from elsewhere and run nothing that stands in a
// page; and no page of another site may read or embed an answer.
func securityHeaders() map[string]string {
	return map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; " +
			"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
	}
}

// withHeaders sets the headers of every answer. A handler that may be cached
// says so itself.
func withHeaders(h http.Handler) http.Handler {
	headers := securityHeaders()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}
