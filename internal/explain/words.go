package explain

import (
	"fmt"
	"math"
	"strings"
)

// seconds returns a duration in words, with three digits.
func seconds(s float64) string {
	switch {
	case math.Abs(s) < 1:
		return number(s*1e3) + " ms"
	case math.Abs(s) < 120:
		return number(s) + " s"
	}
	return number(s/60) + " min"
}

// number returns a number with three digits.
func number(v float64) string {
	text := fmt.Sprintf("%.3g", v)
	if strings.Contains(text, "e") {
		text = fmt.Sprintf("%.0f", v)
	}
	return text
}

// percent returns a ratio in words.
func percent(r float64) string { return number(r*100) + " %" }

// plural returns a count of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// level returns the line of a value that is known; "" for another.
func level(what string, l *Level, show func(float64) string) string {
	v, ok := l.now()
	if !ok {
		return ""
	}
	text := what + ": " + show(v)
	if l.Usual != nil {
		text += ", usually " + show(*l.Usual)
	}
	return text
}

// lines returns those that say something.
func lines(all ...string) []string {
	var kept []string
	for _, line := range all {
		if line != "" {
			kept = append(kept, line)
		}
	}
	return kept
}
