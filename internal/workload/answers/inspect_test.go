package answers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// partsOf returns the parts of a file of testdata, which stand between lines of ---.
func partsOf(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for p := range strings.SplitSeq(string(b), "\n---\n") {
		if p = strings.TrimSuffix(p, "\n"); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// languages are those of the ordinary answers.
var languages = []string{"en", "de", "fr", "es", "ru", "zh", "ja", "ar"}

func names(found []result.Sign) string {
	var all []string
	for _, f := range found {
		all = append(all, string(f))
	}
	return strings.Join(all, ",")
}

// Ordinary answers have no findings, whole or cut at any byte.
func TestOrdinaryAnswersHaveNoFindings(t *testing.T) {
	for _, language := range languages {
		parts := partsOf(t, filepath.Join("ordinary", language+".txt"))
		fits := ScriptsOf(parts[0])
		for _, text := range parts {
			if found := Inspect(workload.Answer{Text: text, Finish: "stop"}, fits); found != nil {
				t.Errorf("%s: %v in %q", language, found, text)
			}
			for n := 0; n < len(text); n += 5 {
				if found := Inspect(workload.Answer{Text: text[:n], Finish: "length"}, fits); found != nil {
					t.Errorf("%s: %v in the first %d bytes of %q", language, found, n, text)
					break
				}
			}
		}
		if found := Inspect(workload.Answer{Text: strings.Join(parts, "\n\n"), Finish: "stop"}, fits); found != nil {
			t.Errorf("%s: %v in all together", language, found)
		}
	}
}

// What users reported of real servers has the findings that it should.
func TestReportedAnswersHaveFindings(t *testing.T) {
	for _, p := range partsOf(t, "broken.txt") {
		head, text, _ := strings.Cut(p, "\n")
		var want, language, source string
		if _, err := fmt.Sscan(head, &want, &language, &source); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		fits := ScriptsOf(partsOf(t, filepath.Join("ordinary", language+".txt"))[0])
		if got := names(Inspect(workload.Answer{Text: text, Finish: "stop"}, fits)); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

func TestInspect(t *testing.T) {
	f := func(prompt, text, finish, want string) {
		t.Helper()
		if got := names(Inspect(workload.Answer{Text: text, Finish: finish}, ScriptsOf(prompt))); got != want {
			t.Errorf("%q after %q: %q, want %q", text, prompt, got, want)
		}
	}
	const en, ru, zh, ja, ko = "Say something.", "Скажи что-нибудь.", "说点什么。", "何か言ってください。", "아무 말이나 해 줘."
	script, control, token, reasoning := string(result.SignScript), string(result.SignControl), string(result.SignToken), string(result.SignReasoning)

	// workload.Scripts: one Chinese character, two letters of others, three Greek ones.
	f(en, "The sky is 蓝 today.", "stop", script)
	f(en, "The sky is голубое today.", "stop", script)
	f(en, "The sky is สวัสดี today.", "stop", script)
	f(en, "The sky is γαλάζιος today.", "stop", script)
	f(en, "The angle π is wide, αβ too, and Ш is a group.", "stop", "")
	f(en, "Beijing (北京), “Война и мир”, 「東京」 and [서울].", "stop", "")
	f(en, "As written in `北京` and\n```\nпривет\n```\n", "stop", "")
	f(en, "That is \"not closed and 北京\n on the next line 上海", "stop", script)
	f(ru, "Небо сегодня 蓝 и голубое.", "stop", script)
	f(ru, "Use the command make in Go.", "stop", "")
	f(zh, "今天天气很好 привет 。", "stop", script)
	f(zh, "今天のの天气", "stop", script) // two letters of Hiragana
	f(ja, "今日はいい天気です。カタカナ", "stop", "")
	f(ko, "오늘 날씨가 天氣 좋아요.", "stop", script)
	f(ko, "오늘 날씨(天氣)가 좋아요.", "stop", "")
	f(en, "<think>天气很好</think>It is fine.", "stop", reasoning) // what was thought is no answer
	f(en, "It is ꦲꦏ fine.", "stop", script)                    // Javanese, which has no name here

	// Characters.
	f(en, "A\x00B", "stop", control)
	f(en, "A\x1b[0mB", "stop", control)
	f(en, "A\u0085B", "stop", control)
	f(en, "A\ue200B", "stop", control)
	f(en, "A\ufffdB", "length", control)
	f(en, "AB\ufffd", "stop", control)
	f(en, "AB\ufffd\ufffd", "length", "")
	f(en, "AB\xf0\x9f", "length", "")
	f(en, "AB\xf0\x9f", "stop", control)
	f(en, "A\tB\r\nC\u200dD\u200f🏴\U000e0067\U000e007f", "stop", "")

	// Tokens.
	for _, text := range []string{
		"Done.<|im_end|>", "<|im_start|>assistant\nDone.", "[INST] Hi [/INST]", "<<SYS>>\nBe good.", "Done.</s>", "<s> Done.", "<pad><pad>",
		"Done.<|eot_id|><|start_header_id|>assistant", "<start_of_turn>model", "Done.<｜end▁of▁sentence｜>", "<|channel|>final<|message|>Done.",
		"[TOOL_CALLS][{}]", "<tool_call>\n{}\n</tool_call>", "Done.assistant\n\nMore.", "HelloĠworldĠagain", "Hello▁world▁again", "Itâ\u0122\u013bs fine",
		"<0xE2><0x80>", "Done.<|END_OF_TURN_TOKEN|>", "### Instruction:\nSay it.", "<|reserved_special_token_12|>",
	} {
		f(en, text, "stop", token)
	}
	for _, text := range []string{
		"Use `<|im_end|>`.", "<s>struck</s> out", "x |> f <| y", "if a <|b|", "a personal assistant\nhelps", "▁▂▃▄▅▆▇", "Ġorġ, Ġesù and Ġwanni",
		"[1], [2] and [UN]", "Map<String, List<T>>", "<b>bold</b>", "a < b || c > d", "assistant\n",
	} {
		f(en, text, "stop", "")
	}

	// Tags, empty or not.
	f(en, "<think>\n\n</think>\n\nDone.", "stop", reasoning)
	f(en, "So it is 4.</think>4", "stop", reasoning)
	f(en, "[THINK]It is[/THINK]4", "stop", reasoning)
	f(en, "The tag `<think>` begins it.", "stop", "")
	f(en, "", "stop", "")
}

func TestRepeats(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := slices.Contains(Inspect(workload.Answer{Text: text, Finish: "length"}, 0), result.SignRepetition); got != want {
			t.Errorf("%q: repeats %t, want %t", text, got, want)
		}
	}
	var counted, varied strings.Builder
	for i := range 200 {
		fmt.Fprintf(&counted, "%d, ", i)
		// A loop in which one word of eight changes.
		fmt.Fprintf(&varied, "I am happy to help you with item %d. ", i)
	}
	f(counted.String(), false)
	f(varied.String(), true)
	f("Here it begins. "+strings.Repeat("And once more it says the same. ", 12)+"Then it ends in another way after all, who knows why.", true)
	f(strings.Repeat("!", 120), true)
	f("no no no", false)
}

func FuzzInspect(f *testing.F) {
	for _, text := range hostile(200) {
		f.Add(text, "stop", uint32(0))
	}
	for _, p := range partsOf(f, "broken.txt") {
		f.Add(p, "length", uint32(1))
	}
	f.Fuzz(func(t *testing.T, text, finish string, fits uint32) {
		found := Inspect(workload.Answer{Text: text, Finish: finish}, workload.Scripts(fits))
		last := -1
		for _, one := range found {
			i := slices.Index(result.Signs(), one)
			if i <= last {
				t.Fatalf("%v: unknown, double or out of order", found)
			}
			last = i
		}
		ScriptsOf(text)
	})
}

func BenchmarkInspect(b *testing.B) {
	en := partsOf(b, "ordinary/en.txt")
	for name, text := range map[string]string{
		"64_tokens": en[1] + " " + en[13], "8192_tokens": strings.Repeat(strings.Join(en, "\n"), 8), "chinese": partsOf(b, "ordinary/zh.txt")[1],
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Inspect(workload.Answer{Text: text, Finish: "length"}, 0)
			}
		})
	}
}

func TestOneToken(t *testing.T) {
	for text, want := range map[string]bool{
		strings.Repeat("!", 64):                                        true,
		strings.Repeat("!!!!", 16):                                     true,
		strings.Repeat(" the", 64):                                     true,
		strings.Repeat("Ġ", 20):                                        true,
		strings.Repeat("\n", 64):                                       false, // white space alone is an empty answer
		strings.Repeat("!", 15):                                        false,
		"ha ha ha ha":                                                  false,
		"No" + strings.Repeat("!", 64):                                 true,
		"No" + strings.Repeat("!", 30):                                 false,
		"Well, here is" + strings.Repeat(" the", 62):                   true,
		strings.Repeat("word ", 40) + "and others that are not a loop": false,
		"A title of some words\n" + strings.Repeat("=", 64):            false,
		strings.Repeat("a b ", 32):                                     false,
		"":                                                             false,
	} {
		if got := slices.Contains(Inspect(workload.Answer{Text: text, Finish: "stop"}, 0), result.SignOneToken); got != want {
			t.Errorf("%.20q: %t, want %t", text, got, want)
		}
	}
}
