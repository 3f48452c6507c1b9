package incidents

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often: what is simulated makes much of it and keeps
// little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
