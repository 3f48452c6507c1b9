package prompt

import "strings"

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

// wordsOf returns the words that a letter of a sentence stands for. All are
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
