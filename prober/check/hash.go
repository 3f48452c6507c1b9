package check

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash identifies a text: the first 16 hex digits of the SHA-256 over its bytes.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
