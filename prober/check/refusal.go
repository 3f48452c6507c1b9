package check

// refusalWithin is in how many words from its beginning an answer declines, if
// it does.
const refusalWithin = 16

// refusals are what declines to answer, as words has them. An apology alone is
// none: "Sorry, it is 41" is only wrong.
var refusals = []string{
	"i cant", "i cannot", "i can not", "i am unable", "im unable", "i am not able", "im not able", "i wont", "i will not",
	"i must decline", "i have to decline", "i must refuse", "i decline to", "i refuse to",
	"im not allowed", "i am not allowed", "im not permitted", "i am not permitted", "not comfortable with", "dont feel comfortable",
	"cant help with", "cannot help with", "cant assist", "cannot assist", "unable to assist", "unable to help",
}

// refuses tells whether an answer, given as its words, declines to answer. The
// phrases are common ones: to be asked only of an answer that is not right.
func refuses(said string) bool {
	start := said
	for i, left := 0, refusalWithin; i < len(said) && left > 0; i++ {
		if said[i] != ' ' {
			continue
		}
		if left--; left == 0 {
			start = said[:i]
		}
	}
	for _, phrase := range refusals {
		if within(start, phrase) {
			return true
		}
	}
	return false
}
