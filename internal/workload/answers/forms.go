package answers

import (
	"encoding/json"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// ToolQuestion is what to ask for one call of Tool. It demands the call, so that a
// model that can call functions at all makes it, and says what each argument is.
const ToolQuestion = "What is the weather in Paris now, in degrees Celsius? Call the function get_weather to find out. Do not answer from memory."

// Tool is the function to call. Its schema keeps to what every protocol takes:
// types, an enumeration and required members.
func Tool() api.Tool {
	return api.Tool{
		Name:        "get_weather",
		Description: "Returns the current weather in a city.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"city":{"type":"string","description":"Name of the city"},` +
			`"unit":{"type":"string","enum":["celsius","fahrenheit"],"description":"Unit of the temperature"}},` +
			`"required":["city","unit"]}`),
	}
}

// StructuredQuestion is what to ask for one answer that meets StructuredSchema. It
// names the members, for servers that tell the model nothing of the schema.
const StructuredQuestion = `The book "Emma" by Jane Austen was published in 1815. Answer with a JSON object with the members title, author, year (a number) and language (its code).`

// StructuredSchema is the schema of the answer. OpenAI demands that every member is
// required and that there are no others.
func StructuredSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"title":{"type":"string"},"author":{"type":"string"},"year":{"type":"integer"},` +
		`"language":{"type":"string","enum":["de","en","es","fr"]}},` +
		`"required":["title","author","year","language"],"additionalProperties":false}`)
}
