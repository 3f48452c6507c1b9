package safetext

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInHeader(t *testing.T) {
	f := func(value string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, InHeader(value)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
	f("Bearer sk-abcdefgh", "sk-abcdefgh")
	f("sk-abcdefgh", "sk-abcdefgh")
	f("Basic dXNlcjpodW50ZXIycGFzcw==", "dXNlcjpodW50ZXIycGFzcw==", "hunter2pass")
	f("id=1; session=0123456789abcdef", "session=0123456789abcdef", "1", "0123456789abcdef")
}
