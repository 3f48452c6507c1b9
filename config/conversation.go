package config

// MaxTurns is the largest number of turns of a conversation.
const MaxTurns = 8

// turnTokens is more tokens than a turn adds to the prompt of the next one beside
// its answer: the text of the user and the template around both messages.
const turnTokens = 128

// IsRelated reports whether a run asks several requests, one after the other, whose
// prompts begin alike.
func (p Prefix) IsRelated() bool { return p == PrefixPaired || p == PrefixConversation }

// TurnsBefore returns how many tokens more the prompt of a turn may have than that
// of the first turn, which is 1: the turns before it, with their answers.
func (m *Module) TurnsBefore(turn int) int {
	return max(0, turn-1) * (m.OutputTokens.Max() + turnTokens)
}
