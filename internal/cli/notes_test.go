package cli

import (
	"os"
	"strings"
	"testing"
)

// Texts and examples are those of commands. The page, which a test holds to the
// parser, has a part for each command.
func TestNotesAreOfCommands(t *testing.T) {
	page, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range ReadNotes().Commands {
		if !strings.Contains(string(page), "\n## "+name+"\n") {
			t.Errorf("%q is no command", name)
		}
	}
}
