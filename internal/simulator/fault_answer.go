package simulator

// corruptedFaults change the text of the answer, as servers do whose kernels, tokenizers or
// parsers are broken; the stream is as it should be.
func corruptedFaults() []Fault {
	insert := func(text string) func(*exchange, sink) sink {
		return changedText(func(token int, was []byte) []byte {
			if token != oddToken {
				return was
			}
			return append(was[:len(was):len(was)], text...)
		})
	}
	return []Fault{
		{Name: "foreign_script", Description: "Puts a word of Thai into the answer.", shape: insert(" สวัสดี")},
		{Name: "control_characters", Description: "Puts replacement characters into the answer.", shape: insert(" \ufffd\ufffd")},
		{Name: "special_token", Description: "Puts a special token of the chat template into the answer.", shape: insert("<|im_end|>")},
		{Name: "repetition", Description: "Repeats one word from the third token on.", shape: changedText(func(token int, was []byte) []byte {
			if token < oddToken {
				return was
			}
			return []byte(" again")
		})},
		{Name: "reasoning_tags", Description: "Begins the answer with empty reasoning tags.", shape: changedText(func(token int, was []byte) []byte {
			if token != 1 {
				return was
			}
			return append([]byte("<think>\n\n</think>\n\n"), was...)
		})},
	}
}

// changedText makes a shape that changes the text of the tokens of the answer, counted
// from 1. change must not write to the text that it gets.
func changedText(change func(token int, was []byte) []byte) func(*exchange, sink) sink {
	return func(_ *exchange, next sink) sink {
		tokens := 0
		return func(e *event) error {
			if e.kind != Answer || e.tokens == 0 {
				return next(e)
			}
			tokens++
			changed := *e
			changed.text = change(tokens, e.text)
			return next(&changed)
		}
	}
}
