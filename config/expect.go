package config

// Expect says what the answer to a prompt must be. A probe whose answer is
// otherwise ends as `check_failed`.
type Expect struct {
	// Equals is the whole answer, white space at its ends aside.
	Equals string `yaml:"equals,omitempty"`
	// Matches is a regular expression (RE2) that the answer must contain a match of.
	Matches string `yaml:"matches,omitempty"`
	// JSONSchema is a JSON schema that the answer, read as JSON, must meet.
	JSONSchema map[string]any `yaml:"json_schema,omitempty"`
	// MinLength is the fewest characters of the answer.
	MinLength int `yaml:"min_length,omitempty"`
	// MaxLength is the most characters of the answer. Default: no limit.
	MaxLength int `yaml:"max_length,omitempty"`
	// Language is the language of the answer as an ISO 639-1 code such as `en`.
	// An answer too short to tell fails.
	Language string `yaml:"language,omitempty"`
	// FinishReason lists the finish reasons that are right, such as `stop`.
	// Default: any.
	FinishReason []string `yaml:"finish_reason,omitempty"`
}
