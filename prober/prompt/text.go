package prompt

import (
	"math/rand/v2"
	"strings"
)

// The fixed parts of a prompt make any model write on until it is cut. The
// order is at both ends, because the filler between them is long.
const (
	head = "Count upwards from one in English words and never stop. The passage below means nothing; skip it."
	tail = "Now count: one, two, three, and so on in words, without any remark and without an end."

	fixedWords = 34 // of head and tail
	nonceWords = 8
)

const (
	// meanBytes is a little more than the mean length of a word of the filler
	// with its space, so that a prompt is built in one allocation.
	meanBytes = 5.8
	// spareBytes covers what a short prompt may be longer than the mean.
	spareBytes = 256
)

// compose writes a prompt of exactly so many words, nonce included; a nil rng
// leaves out the nonce.
func compose(words int, rng *rand.Rand) string {
	var text strings.Builder
	text.Grow(int(float64(words)*meanBytes) + spareBytes)
	filler := words - fixedWords
	if rng != nil {
		filler -= nonceWords
		writeNonce(&text, rng)
	}
	text.WriteString(head)
	text.WriteString("\n\n")
	if filler > 0 {
		writeFiller(&text, filler)
	}
	text.WriteString(tail)
	return text.String()
}

// writeNonce writes random words: some 60 bits, half of them in the first
// sixteen characters.
func writeNonce(text *strings.Builder, rng *rand.Rand) {
	for i := range nonceWords {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(openers[rng.IntN(len(openers))])
	}
	text.WriteString(". ")
}

// writeFiller writes the first n words of an endless text that is always the
// same, so that a longer prompt extends a shorter one.
func writeFiller(text *strings.Builder, n int) {
	state := uint64(1)
	pick := func(from []string) string {
		// A linear congruential step; its high bits are random enough for prose.
		state = state*6364136223846793005 + 1442695040888963407
		return from[int(state>>33)%len(from)]
	}
	for n > 0 {
		sentence := pick(sentences)
		for i := 0; i < len(sentence) && n > 0; i++ {
			if sentence[i] == ',' {
				text.WriteByte(',')
				continue
			}
			if i > 0 {
				text.WriteByte(' ')
			}
			word := pick(wordsOf(sentence[i]))
			if i == 0 {
				text.WriteByte(word[0] - 'a' + 'A')
				word = word[1:]
			}
			text.WriteString(word)
			n--
		}
		if n > 0 {
			text.WriteString(". ")
		}
	}
	text.WriteString(".\n\n")
}

// sentences are the patterns of the filler; wordsOf explains the letters.
var sentences = []string{
	"danvpdan",
	"dnvrpdn,cdnvpdn",
	"pdan,dnvdn",
	"danvdn,cdnvr",
	"dnpdnvdan",
	"rdnvpdn",
	"dnvdn,dnvdan,cdnvr",
}

// wordsOf returns the words for a letter of a sentence. All are
// common and short, so that most tokenizers have one token for each.
func wordsOf(letter byte) []string {
	switch letter {
	case 'd':
		return determiners
	case 'a':
		return adjectives
	case 'n':
		return nouns
	case 'v':
		return verbs
	case 'p':
		return prepositions
	case 'c':
		return conjunctions
	default: // r
		return adverbs
	}
}

var (
	determiners  = strings.Fields(`the the the one this that each every another some her his their our`)
	prepositions = strings.Fields(`in on near under over behind before after beside across from into with without along around`)
	conjunctions = strings.Fields(`and and but so while because then when`)
	adverbs      = strings.Fields(`again slowly soon later often early quickly gently there here today once twice almost never always`)

	adjectives = strings.Fields(`
		old new small large quiet bright dark warm cold green blue red white black early late
		long short high low open empty full heavy light soft hard clean dry wet young wide
		narrow simple plain fresh sweet strong rich poor`)

	nouns = strings.Fields(`
		river house garden table window street market letter morning evening teacher doctor child
		farmer bridge forest mountain valley road train station ship harbor island field village city
		school church kitchen door wall roof stone tree flower leaf bird horse dog cat fish winter
		summer spring storm cloud rain snow wind sun moon star song story book paper picture clock
		lamp chair bed cup plate bread apple milk coat shoe hat box bag key coin`)

	verbs = strings.Fields(`
		saw found took held moved passed left kept followed crossed carried opened closed watched
		painted built sold bought lost heard knew liked met needed reached turned washed filled
		covered touched helped asked called showed`)

	// openers start a cold prompt. All have three letters, so that sixteen
	// characters hold four of them.
	openers = strings.Fields(`
		act add age ago aid aim air all and ant any arc are ark arm art ash ask ate
		awe axe bad bag ban bar bat bay bed bee beg bet bid big bin bit bow box boy bud
		bug bun bus but buy bye cab can cap car cat cow cry cup cut dad dam day den
		did dig dim dip dog dot dry due dug ear eat egg ego elf end era eve eye fan
		far fat fed fee few fig fin fit fix fly fog for fox fun fur gap gas get god
		got gum guy gym had ham has hat hay hen her hid him hip his hit hop hot how
		hub hug hut ice ill ink inn its jam jar jaw jet job jog joy key kid kin kit lab
		lap law lay led leg let lid lie lip log lot low mad man map mat may men met mix
		mob mom mud mug net new nod nor not now nut oak odd off oil old one orb our out
		owl own pad pan par pat paw pay pea pen pet pie pig pin pit pop pot pub put ran
		rat raw ray red rib rid rim rip rob rod row rub rug run sad sat saw say sea see
		set she shy sit six ski sky son sum sun tap tax tea ten the tie tin tip toe
		ton too top toy try tub two use van was way web wet who why win wit yes you`)
)

// ReferencePassage is the text whose log-probability is watched. It never
// changes: a change would look like one of the model.
const ReferencePassage = `The old mill at the bend of the river has not ground any flour for sixty years, yet people still come to look at it. ` +
	`Its wheel is stuck, half of the roof is gone, and a young birch has taken root where the miller used to keep his sacks. ` +
	`On Sundays the path along the bank is full of families from the town. ` +
	`Children throw stones into the deep water below the weir and argue about how far down it goes, while their parents spread blankets on the grass and open baskets with bread, cheese and cold tea.

` +
	`Nobody remembers exactly why the mill was closed. Some say that the railway made it cheaper to bring flour from the coast. ` +
	`Others tell of a flood that broke the gates one night in March, after a week of rain, and left a layer of mud as high as a table in every room. ` +
	`The records of the parish mention both, but they also mention a quarrel between two brothers, and in a village a quarrel often explains more than the weather does.

` +
	`Last autumn a group of engineers measured the fall of the stream and wrote a short report. ` +
	`A small turbine, they found, could supply forty houses with electricity for most of the year, provided that fish were given a way around it. ` +
	`The council has asked for a second opinion and will vote before the end of June. ` +
	`Until then the mill stays what it has been for so long: a quiet place with thick walls, where swallows nest and where, if you stand still for a minute, you can hear the water do its patient work.`

// ReferenceQuery is what an endpoint that ranks compares ReferenceTexts with. It never
// changes either.
const ReferenceQuery = "How do I keep bread from going stale?"

// ReferenceTexts returns the texts whose embeddings or scores are watched: of several
// languages and kinds, from an answer to ReferenceQuery to what has nothing to do with
// it. They never change: a change would look like one of the model.
func ReferenceTexts() []string {
	return []string{
		"Keep bread in a paper bag inside a closed box at room temperature, with the cut side down. In the refrigerator it goes stale sooner, in the freezer it keeps for months.",
		"Brot bleibt im Steinguttopf oder in einem Leinenbeutel mehrere Tage frisch. Im Kühlschrank wird es schneller altbacken.",
		"Starch recrystallises as a loaf cools and ages. Heating it to 60 degrees reverses that for a while, which is why old rolls are good again from the oven.",
		"The bakery in the station opens at half past five and sells rolls, pretzels and coffee to commuters.",
		"The committee postponed its vote on the harbour bridge until the noise measurements of both summers have been compared.",
		"今年的雨季比往年来得晚,农民们担心水稻的收成。",
		"func sum(values []float64) (total float64) {\n\tfor _, v := range values {\n\t\ttotal += v\n\t}\n\treturn total\n}",
		"2026-03-14 09:26:53 42.195 km 3:59:08 +1.7 % EUR 1,204.50",
	}
}
