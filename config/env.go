package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// expandEnv replaces each ${NAME} in s by the environment variable NAME, which
// must be set and not empty, and each $${ by a literal ${. Any other dollar
// sign stands for itself. Errors name the variable, where its name is of the usual
// form, and never repeat s.
func expandEnv(s string) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		name, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok || !isIdentifier(name) {
			return "", errors.New("want ${NAME} with the name of an environment variable; write $${ for a literal ${")
		}
		value := os.Getenv(name)
		switch {
		case value == "" && variableLike.MatchString(name):
			return "", fmt.Errorf("environment variable %s is not set, or empty", name)
		case value == "": // the name may be the secret itself
			return "", errors.New("an environment variable that is not set, or empty")
		}
		b.WriteString(s[:i] + value)
		s = rest
	}
}
