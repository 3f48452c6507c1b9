package api

import (
	"testing"
	"time"
)

// TestRealServers decodes replies that "make real SERVERS=litellm,dynamo,transformers,vllm-speculative,vllm-lora,sglang"
// recorded: the exporter's own requests for 64 tokens, answered by models of two
// layers with random weights. Texts and pieces were counted outside of this program.
// Two of SGLang are answers to curl, for 8 tokens after "The sky is blue.".
func TestRealServers(t *testing.T) {
	const chat, completions, responses, anthropic = "openai-chat", "openai-completions", "openai-responses", "anthropic"
	none := ServerTimes{-1, -1, -1}
	for _, c := range []struct {
		file, api string
		want      reply
	}{
		// LiteLLM 1.106 in front of vLLM 0.32: the usage has a choice without text beside it.
		{"litellm_v1_chat_stream", chat, reply{
			Text: " powerrectsequence Setup wordexample\ufffd levelap Pythonrect Setup wordexample\ufffd levelap Pythonrect Setup" +
				"Q embeddingaddresstiloldSON depend TensorRThooThe add canlleINT Setup wordute power beforethermalonentponINT S" +
				"etupQ embeddingllrect embedding rows TensorRThoo```INT Setup wordexample generreserved upperSON depend valid e" +
				"mbedding",
			Tokens: 62, Visible: 62, Finish: "length", Done: true, Usage: Usage{259, 0, 64, 0}, Server: none,
		}},
		{"litellm_v1_completions_stream", completions, reply{
			Text: "isagsafetext upperthinking depend normalutetil generutil\ufffd\ufffdDe thisthinking hours Setup wordatibility " +
				"minuteshooThe add Q equ\ufffd Setup actionap rather wordglobalsafetext AIrect action adduring HTTPamedubernete" +
				"sread action24util\ufffdMetthermal upperoldthinkingets\ufffd tracingreserved upperold furthervthinking hours S" +
				"etup word R",
			Tokens: 59, Visible: 59, Finish: "length", Done: true, Usage: Usage{259, 0, 64, 0}, Server: none,
		}},
		{"litellm_v1_responses_stream", responses, reply{
			Text: "face enough\ufffdrect## equCh equ dependclustertilold furthercorrected 44 HTTPamedrectsigvonentSON dependINT S" +
				"etupQ embeddingaddresstiloldSONclustertiloldSONmptSONmptSONmptSONclusterisagencesencesencesINT Setup action24f" +
				"alsestall HTTPMAP obsulesunknownutsideap dependclustertil ownINT",
			Tokens: 62, Visible: 62, Finish: "length", Done: true, Usage: Usage{256, 0, 64, 0}, Server: none,
		}},
		// The counts are 0: a probe takes those of the events.
		{"litellm_gemini_stream", "gemini", reply{
			Text: " powermptions R\ufffdtiliniark R\ufffdtiliniark R\ufffdtiltiltiltiltiltiltiltiltiltiltiltiltiltiltilini addiri" +
				"ngtiltiltiltiltiltiltiltilini addiringtilini addiringtilini addiringtilini addiringtilig```old demothinking ho" +
				"ursonent sco",
			Tokens: 61, Visible: 61, Finish: "length", Usage: Usage{0, Unknown, 0, Unknown}, Server: none,
		}},
		// Dynamo 1.6.1, front end and mocker.
		{"dynamo_v1_chat_stream", chat, reply{
			Text: "ptionsled confi longeront through distdet conversationdocamiluresingerprint upperamoensor youtocol`](# wordsle" +
				"scepted gapsecre filesutscollector report queue Inference few insteadoutput event short togetherictedNAMEessio" +
				"nensor rate abovekets prober users samplesblocksbenchgresstoottftGLang dec repliesabilllectorenerate`).arallel" +
				"ervetextstatuspec much",
			Tokens: 64, Visible: 64, Finish: "length", Done: true, Usage: Usage{259, 0, 64, Unknown}, Server: none,
		}},
		{"dynamo_v1_completions_stream", completions, reply{
			Text: "ponkubernetes]))InferenceP lost Openund addedlightrontertificatetoo Setup80]) longer li systemiffer timeshindc" +
				"ontent source ifsonase cl about shortelpub labels half showstatus into secondconfigsadening discoveryetupful P" +
				"robes Known rulesyamsourceernelspecew To besideinstance +port questernPOTWhat PCIature200 longer",
			Tokens: 64, Visible: 64, Finish: "length", Done: true, Usage: Usage{256, 0, 64, Unknown}, Server: none,
		}},
		// 265 tokens of prompt in message_start, 256 in message_delta.
		{"dynamo_v1_messages_stream", anthropic, reply{
			Text: "engines decode itselferrors \u2020AGities momentyam line longer 15ules longerInferenceE durationutil\u00b5sbr " +
				"Prometheusalls                      ources li aboveironmentof InferenceprefillInferenceDprefillensorRT TensorR" +
				"TBenchmark asksironment 25 template-/ellm runs dist Ollamaplicpectedieasedraasenot WhereIAstreamrunningloadsAM" +
				"Efuscome next pod usedults interval warm",
			Tokens: 64, Visible: 64, Finish: "length", Done: true, Usage: Usage{256, Unknown, 64, Unknown}, Server: none,
		}},
		// transformers serve 5.16: no end marker, and the usage beside the finish reason.
		{"transformers_v1_chat_stream", chat, reply{
			Text: "InferenceMeasureaction outscheck ShareInferenceTPOT High%engraphicsellm 20000 progressexpectedstallem replList" +
				"s replLists replPOstall reranktypesloText\ufffd ll\u0002loadter choo 20000 `check records tokenizerache 20000_" +
				"` rebsecretses code\ufffd resol here copiesanswers detecteveraced tokenizer seenveryizes format hangsrequestst" +
				"all default 20000",
			Tokens: 62, Visible: 62, Finish: "length", Usage: Usage{256, Unknown, 64, Unknown}, Server: none,
		}},
		// An answer that was cut at 64 tokens calls itself completed.
		{"transformers_v1_responses_stream", responses, reply{
			Text: "driver 20000cleyn certificateLLTOICop replLists differ](../TextRe inhouse 20000driver 20000driver 20000driver\ufffd" +
				"lamamodePOter corelient thouslamaertzrequestynchunk types replLists\"\"\" formatwatts 20000l\"\"wattsmetriccle" +
				" helpsreceiveARGET\"\"\" 2026l\" 2026 authenticrequestl %",
			Tokens: 63, Visible: 63, Finish: "stop", Done: true, Usage: Usage{258, 0, 64, 0}, Server: none,
		}},
		// vLLM 0.32 with n-gram speculation counts on: one event has two tokens, and two have no text.
		{"vllm_v1_chat_stream_speculative", chat, reply{
			Text: "InferenceMeasurejson 21json 21json 21abacheaction\ufffdTakeengineanswersrequest.\",actionanswersrequest.\", au" +
				"thenticistogram intervals Vgolangback68\"ber DurationYou linksprobaken46 replLists replLists replLists replore" +
				"graphics askould\ufffdaction latenciesizes formattpot%encejsonDCGoundslocks exceptGPUsDropInf Key 20000",
			Tokens: 61, Visible: 61, Counts: upTo(64, 42), Finish: "length", Done: true, Usage: Usage{255, 0, 64, Unknown}, Server: none,
		}},
		// SGLang 0.5.23 on a CPU: two of eight tokens come without text. 7 tokens at
		// 6.8011087497675735 a second; from forward_entry_time to prefill_finished_time.
		{"sglang_generate_stream", "sglang", reply{
			Text: "abilitiespor Ratio Builoice only", Tokens: 6, Visible: 6, Counts: upTo(8), Finish: "length", Done: true,
			Usage: Usage{9, 1, 8, 0}, Server: ServerTimes{423108 * time.Nanosecond, 88047742 * time.Nanosecond, 1029243945 * time.Nanosecond},
		}},
		// Nulls beside the content, as with --enable-cache-report.
		{"sglang_v1_chat_stream", chat, reply{
			Text: "abilitiesabilitiesabilities search otherwisespeedspeed otherwise", Tokens: 8, Visible: 8, Finish: "length", Done: true,
			Usage: Usage{12, 1, 8, 0}, Server: none,
		}},
		// vLLM 0.32 with a parser of reasoning, of which it counts none, and with times:
		// three tokens have no text of their own.
		{"vllm_v1_chat_stream_reasoning", chat, reply{
			Reasoning: "modelrect Setup addcapacity addcapacity\ufffdthinkingmodelrectsequence 24\ufffdentlyentlyentlyaddresstilold fu" +
				"rtherarchcoder gener HTTP due usagevidiabersDisagreesigv 24utsidenameoldthinking hours prototestLangrequest[on" +
				"ent\ufffd Unixrcrect Setup addoldSON malfoldcorrectedrevithinking absent Setup word whithermal Setup word mist" +
				"til",
			Tokens: 61, Counts: upTo(64), Finish: "length", Done: true, Usage: Usage{256, 0, 64, 0},
			Server: ServerTimes{24566 * time.Nanosecond, 48902073 * time.Nanosecond, 2252470463 * time.Nanosecond},
		}},
		// 255 tokens of prompt beside 3 that were read from the cache.
		{"sglang_v1_messages_stream", anthropic, reply{
			Text: "ource|endingTERM Uactionflightsm comp Thonfi hunclusterpowerESgpquest dovent finishoulesduplicatedynamo timed5" +
				"lication filetensorrt any recording on arrival fingerprintert callsick beentoload medianficextscomponent What " +
				"Gemini la largest twice UseabreliableowedUTIL than\ufffdidsinstancemetheustftintervaloney`. printders canceled",
			Tokens: 63, Visible: 63, Finish: "length", Done: true, Usage: Usage{258, 3, 64, Unknown}, Server: none,
		}},
		{"sglang_v1_responses_stream", responses, reply{
			Text: "access addcapacity\ufffd\ufffdtiloldthinking Setup actionap Pythonrectsigv Exittlsrectcorrect obs HTTP unknown" +
				"rect embedding library actionap Pythonrect embedding HTTPMAP obsGItil/INT Setup wordimumED HTTP unknownrectcor" +
				"rect dependrints addstall reasonEDINT HTTPaddressCh te Ruthlistenhoo measurementsubernetesTestB",
			Tokens: 60, Visible: 60, Finish: "length", Done: true, Usage: Usage{258, 1, 62, 0}, Server: none,
		}},
		// No counts, and an answer that was cut calls itself stopped.
		{"sglang_api_chat", "ollama", reply{
			Text: "GIandard actionttp HTTPUn levelthermalver did Setup wordimumthermal Page action betthermal Page butasictilrite" +
				"MetmodelMetmodel15 arrivaltilriteexample adduringli spthinkingmodel15 arrivaltil usagetil usagetiliniark recor" +
				"rected resol did Setup wordMeasfus usagevidiaaccessubernetes embeddingjectedmptionstil",
			Tokens: 63, Visible: 63, Finish: "stop", Done: true, Usage: noUsage(), Server: none,
		}},
	} {
		t.Run(c.file, func(t *testing.T) { checkGolden(t, c.file, c.api, c.want) })
	}
}
