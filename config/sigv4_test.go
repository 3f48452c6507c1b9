package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"
)

// TestSigV4Keys checks that keys never come from two places.
func TestSigV4Keys(t *testing.T) {
	setEnv(t)
	f := func(keys string, want SigV4) {
		t.Helper()
		c, err := Parse([]byte("endpoints: [{url: http://h, sigv4: {region: us-east-1"+keys+"}}]"), "f.yml")
		if err != nil {
			t.Error(err)
			return
		}
		want.Region = "us-east-1"
		if diff := cmp.Diff(want, *c.Endpoints[0].SigV4); diff != "" {
			t.Errorf("%s: %s", keys, diff)
		}
	}
	id, secret, token := "AKIDFROMENVIRONMENT", promconfig.Secret("secret-from-environment"), promconfig.Secret("token-from-environment")
	f("", SigV4{"", "bedrock", id, secret, token})
	f(", service: x", SigV4{"", "x", id, secret, token})
	f(", access_key_id: , secret_access_key: ", SigV4{"", "bedrock", id, secret, token})
	f(", session_token: t", SigV4{"", "bedrock", id, secret, "t"})
	f(", access_key_id: A, secret_access_key: s", SigV4{"", "bedrock", "A", "s", ""})
	f(", access_key_id: A, secret_access_key: s, session_token: t", SigV4{"", "bedrock", "A", "s", "t"})
	t.Setenv("AWS_SESSION_TOKEN", "")
	f("", SigV4{"", "bedrock", id, secret, ""})
}
