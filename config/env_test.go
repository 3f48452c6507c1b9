package config

import "testing"

func TestExpandEnv(t *testing.T) {
	t.Setenv("A", "x")
	t.Setenv("B_2", "${A}$")
	t.Setenv("EMPTY", "")
	f := func(in, want string) {
		t.Helper()
		if got, err := expandEnv(in); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", in, got, err, want)
		}
	}
	f("", "")
	f("plain", "plain")
	f("${A}", "x")
	f("-${A}-${A}${B_2}-", "-x-x${A}$-") // a value is not expanded again
	f("a$b$$c$", "a$b$$c$")              // dollars without a brace stand for themselves
	f("$${A}", "${A}")
	f("$$${A}", "$${A}")
	f("$A", "$A")

	for _, in := range []string{"${", "${A", "${}", "${1}", "${A B}", "${UNSET_IN_TESTS}", "${EMPTY}"} {
		if got, err := expandEnv(in); err == nil {
			t.Errorf("%s: got %q, want an error", in, got)
		}
	}
}
