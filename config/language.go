package config

import (
	"slices"
	"strings"
	"unicode"
)

// written is how a language is recognised: by its script where no other language of the
// list has it, else by frequent words, and by letters that the others do not have.
type written struct {
	code           string // ISO 639-1
	script         *unicode.RangeTable
	words, letters string
}

// writtenLanguages are the languages that LanguageOf tells apart.
func writtenLanguages() []written {
	return []written{
		{"en", unicode.Latin, "the of and to is in that it for with are as this be not was on have by from or an can which you has if no will at one when what there been their they more only any must his", ""},
		{"de", unicode.Latin, "der die das und ist nicht ein eine einen zu den mit von für auf sich dem des im auch werden wird als oder bei ich wurde sind dass wie aus an nach um zum zur nur kann keine einer wenn sein sie er es am haben mehr", "ß"},
		{"fr", unicode.Latin, "le la les des est et une dans pour que qui pas sur par du au aux avec sont ce qu ou plus être à ne a il elle je on se même tout cette comme si deux mais leur dont ces un tous ils", "œ"},
		{"es", unicode.Latin, "el la los las de que y en es por para con una un se del no como más su al o son ha pero este sus lo fue muy también hay le si puede está sin sobre entre ser cuando esta", "ñ¿¡"},
		{"pt", unicode.Latin, "o a os as de que e em do da é para com não uma um por se no na mais ou ao são dos à mas foi seu sua pela pelo também está ser tem quando isso até muito pode sem", "ãõ"},
		{"it", unicode.Latin, "il la di che è e per non un una del della con sono in si da i le dei nel gli alla anche o dell nell al dal sul degli lo se ma ha questo come essere più nella può delle ed", ""},
		{"ca", unicode.Latin, "el la els les de que i a en per un una és amb no del al com més o són dels ha", "·"},
		{"nl", unicode.Latin, "de het een van en is niet voor met zijn dat op te aan die door worden ook er naar bij wordt of deze dit als geen kan maar om uit nog heeft hij je ze meer was hebben", ""},
		{"af", unicode.Latin, "die en van is nie in het dat n om te vir met op hulle wat aan sy ook of word hierdie kan moet sal", ""},
		{"sv", unicode.Latin, "och att är det som en av för på med den till inte om ett kan från har var eller de vid så men sin ut hon han kunde måste finns detta denna även när ingen alla", ""},
		{"da", unicode.Latin, "og at er det en af til på for med den ikke som der de kan et har fra eller hvis ved blive efter kun ingen denne dette vil skal var være ud når alle hvor fejl kunne mellem sig også hvad meget noget blev mod lige enhver nogle", ""},
		{"nb", unicode.Latin, "og å er det en av til på for med den ikke som i de kan et har fra eller hvis ved bli etter bare ingen denne dette vil skal var være ut når alle hvor bruk mellom seg også hva mye noe ble mot likt enhver noen", ""},
		{"is", unicode.Latin, "og að er í á sem það við um en til ekki með var fyrir af hann eru sé hún því eftir verið yfir milli eða frá þegar þetta", "þð"},
		{"fi", unicode.Latin, "on ja ei se että oli joka myös kun niin ovat tai hän mutta jos voi kuin ole tämä olla sen hänen kanssa tämän jonka kaikki mitä vain voidaan jälkeen olisi siitä sitten koko ennen käyttää liian mukaan vielä heidän heille sinun minun jotka jossa eivät sitä näin myöskään kohti ilman tulee voit", ""},
		{"et", unicode.Latin, "on ja ei et see oma kui ka mis või oli ta nii aga seda kes ning pole kas olema kus siis veel kõik tema saab võib peab puudub mitte sama enne pärast juba välja", "õ"},
		{"pl", unicode.Latin, "i w nie na się z do jest to że jak o od po za są przez dla oraz lub może", "łąęśźż"},
		{"cs", unicode.Latin, "a se na je v že z do to o i pro jako by jsou není nebo ale které který být při", "ěřů"},
		{"sk", unicode.Latin, "a sa na je v že z do to o i pre ako by sú nie alebo ale ktoré ktorý byť pri", "ľĺŕ"},
		{"hu", unicode.Latin, "a az és nem hogy egy is van meg ez de csak mint vagy volt lehet minden ki ha már azt ezt nincs el fel be volna amely ezek után között sem kell akkor mert így olyan több első", "őű"},
		{"ro", unicode.Latin, "de și în a la nu cu pe este o care din pentru un sau că mai se sunt prin să", "țșţ"},
		{"hr", unicode.Latin, "je i u na se da za od su koji ne kao ili što biti iz može bi kako ali samo li nije bez više kada koje te ovo također među ima moguće bio bila", "ćđ"},
		{"sl", unicode.Latin, "je in v na se da za so z ki ne kot ali pa tudi bi ni po od iz lahko ker bil če med brez samo več kako kateri tega še tako kar prek že ter", ""},
		{"lv", unicode.Latin, "ir un ar no par kas ka uz tas lai bet kā nav vai pie ja tiek", "āēīķļņģ"},
		{"lt", unicode.Latin, "ir yra kad su ne į iš tai kaip bet ar už per buvo jo apie nuo arba", "ėįų"},
		{"sq", unicode.Latin, "të e në për me një dhe që është nga i se ka si u nuk më", ""},
		{"tr", unicode.Latin, "bir ve bu için ile de da olarak olan daha çok gibi veya ne değil en var ama kadar her yok sonra ancak diye tüm ise içinde", "ğı"},
		{"az", unicode.Latin, "və bir bu ilə üçün olan olaraq də da ki daha hər çox ya var", "ə"},
		{"vi", unicode.Latin, "và là của không có được cho các một trong những với người này đã để khi từ", "ạảấầậếềệộợựữươđ"},
		{"id", unicode.Latin, "yang dan di dengan untuk dari tidak ini dalam pada adalah akan itu atau juga ke oleh dapat telah bisa ada saat bukan kami mereka seperti karena lebih sebagai hanya anda saya harus jika sebuah nya tersebut", ""},
		{"tl", unicode.Latin, "ang ng sa na mga at ay hindi ito para siya kung ni may", ""},
		{"eo", unicode.Latin, "la de kaj en estas al ne por kun ke kiu aŭ sed oni pri ili el", "ĉĝĥĵŝŭ"},
		{"eu", unicode.Latin, "eta da ez du bat edo dira izan ere baina hau egin den zen ditu beste ezin behar dago bada gisa baten honek dute dela bere hori horrek dituzte beharko ari gabe", ""},
		{"ru", unicode.Cyrillic, "и в не на что с по как это к для из но у от за его был при или также она они бы если только уже все было между после может этот эти их её мы я которые чтобы можно", "ыэё"},
		{"uk", unicode.Cyrillic, "і в не на що з у та до як для від це за є про або й його при має можна може якщо лише був були він вона але також між під час після буде", "їєґ"},
		{"be", unicode.Cyrillic, "і ў не на што з у да як для гэта ад па яго або пра быць калі але каб быў ці толькі гэты пры яны сваёй іх яна мы вы якія якая дзе ёсць трэба таксама вельмі можна", "ўыэё"},
		{"bg", unicode.Cyrillic, "на и да за не се от в с е са при по или като това без към има може", "ъ"},
		{"sr", unicode.Cyrillic, "је и да у се на за не од су са који као или што бити из може али како само био била када није нема има још током више", "ћђ"},
		{"mk", unicode.Cyrillic, "на и да се во за не од е со што како или кој може ќе ги ја дали има само беше овој една биде тоа бил сум", "ѓќѕ"},
		{"ar", unicode.Arabic, "في من على أن إلى هذا التي عن مع كان لا ما أو هو الذي و هذه بين", "ةأإ"},
		{"fa", unicode.Arabic, "و در به از که این است را با برای یک آن می شود های هم تا بر ای نیست شده کردن باید بود خود نمی ما او پیش روی هر اما کند اگر", "ژ"},
		{"ur", unicode.Arabic, "اور کے میں کی ہے سے کا کو یہ پر نہیں ہیں ایک نے کہ بھی تھا جو", "ٹڈڑےں"},
		{"hi", unicode.Devanagari, "है के में की और से का को पर हैं नहीं यह एक ने कि भी जो था लिए किया या हो इस करने रहा गया तो हम मैं होता", ""},
		{"mr", unicode.Devanagari, "आहे आणि या च्या हे ते एक नाही होते तो की ही केले आहेत मध्ये साठी किंवा करा करण्यास करीता होता त्या त्याच्या असे झाले करण्यासाठी पण तर मी ह्या व त्यांना त्यांनी सर्व होती", "ळ"},
		{"ne", unicode.Devanagari, "छ र को मा छन् यो भएको लागि हो पनि एक गर्न तथा ले हुन्छ लाई गर्ने छैन यदि भने वा तर कुनै रूपमा उनी गरेको थियो भन्ने एउटा सबै हुन् पर्छ गर्नु यस भएकोले ती", ""},
		{code: "am", script: unicode.Ethiopic},
		{code: "bn", script: unicode.Bengali},
		{code: "el", script: unicode.Greek},
		{code: "gu", script: unicode.Gujarati},
		{code: "he", script: unicode.Hebrew},
		{code: "hy", script: unicode.Armenian},
		{code: "ja", script: unicode.Hiragana},
		{code: "ja", script: unicode.Katakana},
		{code: "ka", script: unicode.Georgian},
		{code: "km", script: unicode.Khmer},
		{code: "kn", script: unicode.Kannada},
		{code: "ko", script: unicode.Hangul},
		{code: "lo", script: unicode.Lao},
		{code: "ml", script: unicode.Malayalam},
		{code: "my", script: unicode.Myanmar},
		{code: "or", script: unicode.Oriya},
		{code: "pa", script: unicode.Gurmukhi},
		{code: "si", script: unicode.Sinhala},
		{code: "ta", script: unicode.Tamil},
		{code: "te", script: unicode.Telugu},
		{code: "th", script: unicode.Thai},
		{code: "zh", script: unicode.Han},
	}
}

// Languages lists the languages that an answer may be expected to have, as
// ISO 639-1 codes: those of which ordinary texts are recognised nearly always. Of the
// others too many are not, mostly for their many forms of a word; they are in the list so
// that no text in them is taken for another language.
func Languages() []string {
	others := []string{"be", "et", "fi", "mr", "ne"}
	var codes []string
	for _, l := range writtenLanguages() {
		if !slices.Contains(others, l.code) {
			codes = append(codes, l.code)
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// LanguageOf returns the ISO 639-1 code of the language that most of a text is in; "" where
// that is not clear, as in a text of a few words.
func LanguageOf(text string) string {
	all := writtenLanguages()
	one, script := scriptOf(text, all)
	if script == nil {
		return one
	}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) })
	// A word counts the less the more languages have it.
	have := map[string]int{}
	all = slices.DeleteFunc(all, func(l written) bool { return l.script != script })
	for _, l := range all {
		for w := range strings.FieldsSeq(l.words) {
			have[w]++
		}
	}
	best, second, known := 0.0, 0.0, 0
	for _, l := range all {
		own, score, hits := strings.Fields(l.words), 0.0, 0
		for _, w := range words {
			switch {
			case slices.Contains(own, w):
				score += 1 / float64(have[w])
				hits++
			case l.letters != "" && strings.ContainsAny(w, l.letters):
				score += 0.5
				hits++
			}
		}
		if score > best {
			best, second, known, one = score, best, hits, l.code
		} else {
			second = max(second, score)
		}
	}
	// fewest words must be known, and one of each share; the next best language must be
	// this much behind.
	const fewest, share, ahead = 2, 10, 1.2
	if known < fewest || known*share < len(words) || best < ahead*second {
		return ""
	}
	return one
}

// scriptOf returns the script of most letters of a text and, where only one language has
// that, its code alone.
func scriptOf(text string, all []written) (code string, script *unicode.RangeTable) {
	letters, total := map[string]int{}, 0
	scripts := map[string]*unicode.RangeTable{}
	for _, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		total++
		if i := slices.IndexFunc(all, func(l written) bool { return unicode.Is(l.script, r) }); i >= 0 {
			letters[all[i].code]++
			if all[i].words != "" {
				scripts[all[i].code] = all[i].script
			}
		}
	}
	// Japanese has Chinese characters between its own.
	const own = 10 // of which at least one of so many is its own
	if letters["ja"]*own > letters["zh"] {
		letters["ja"] += letters["zh"]
	}
	for c, n := range letters {
		if 2*n > total {
			code, script = c, scripts[c]
			if c != "zh" {
				break
			}
		}
	}
	return code, script
}
