package safetext

import (
	"fmt"
	"testing"
)

func TestNames(t *testing.T) {
	n := NewNames(NewSecrets("sk-0123456789"), 16)
	for range 2 {
		for in, want := range map[string]string{
			"": "", "llama": "llama", "a\u202eb\n": "a b", "m sk-0123456789": "m <secret>", "0123456789abcdefg": "<secret>abcdefg",
			"a-very-long-name-of-a-model": "a-very-long-n...",
		} {
			if got := n.Clean(in); got != want {
				t.Errorf("%q: %q, want %q", in, got, want)
			}
		}
	}
	for i := range 10 * maxNames {
		n.Clean(fmt.Sprint("model-", i))
	}
	if len(n.seen) > maxNames {
		t.Errorf("%d names are remembered", len(n.seen))
	}
}
