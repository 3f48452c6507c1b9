package prompt

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// The passage must stay as it is, to the byte: its score is compared over
// months and between versions.
func TestReferencePassageNeverChanges(t *testing.T) {
	const want = "911a27abda830b991aed35aae46704dc064c7e3916311c0026420ac6a90f7f00"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(ReferencePassage))); got != want {
		t.Errorf("SHA-256 %s, want %s", got, want)
	}
	if n := len(strings.Fields(ReferencePassage)); n < 200 || n > 300 {
		t.Errorf("%d words", n)
	}
	if ReferencePassage != strings.TrimSpace(ReferencePassage) {
		t.Error("white space at an end, which servers cut off")
	}
}
