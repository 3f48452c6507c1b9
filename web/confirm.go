package web

import (
	"fmt"
	"html"
	"net/http"
)

// confirmation is the page that asks whether to probe a target. Its form sends a
// POST to the page's own address.
const confirmation = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Probe</title>
<link rel="stylesheet" href="assets/app.css">
</head>
<body>
<main>
<p>A probe sends a request to <b>%s</b>, which may cost tokens.</p>
<form method="post"><button>Probe now</button></form>
</main>
</body>
</html>
`

// askToConfirm answers a browser that asks for a probe of a target by GET.
func askToConfirm(w http.ResponseWriter, target string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	// With no-referrer the form would not say which site sends it.
	w.Header().Set("Referrer-Policy", "same-origin")
	w.WriteHeader(http.StatusForbidden)
	_, _ = fmt.Fprintf(w, confirmation, html.EscapeString(target))
}
