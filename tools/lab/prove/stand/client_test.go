package stand

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"
)

// answering returns a client of a server that gives one answer.
func answering(t *testing.T, status int, answer string) Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	return Client{Base: s.URL}
}

func TestQuery(t *testing.T) {
	at := time.UnixMilli(1500)
	for name, c := range map[string]struct {
		answer string
		want   []Series
	}{
		"vector": {
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"2"]}]}}`,
			[]Series{{Labels: map[string]string{"a": "b"}, Points: []Point{{at, 2}}}},
		},
		"matrix": {
			`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1.5,"2"],[1.5,"3"]]}]}}`,
			[]Series{{Labels: map[string]string{}, Points: []Point{{at, 2}, {at, 3}}}},
		},
		"scalar": {
			`{"status":"success","data":{"resultType":"scalar","result":[1.5,"4"]}}`,
			[]Series{{Points: []Point{{at, 4}}}},
		},
		"native histogram": {
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1.5,{"count":"7","sum":"1","buckets":[]}]}]}}`,
			[]Series{{Labels: map[string]string{}, Points: []Point{{at, 7}}}},
		},
		"nothing": {`{"status":"success","data":{"resultType":"vector","result":[]}}`, []Series{}},
	} {
		got, err := answering(t, http.StatusOK, c.answer).Instant(t.Context(), "x", at)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestQueryRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"error":   `{"status":"error","errorType":"execution","error":"many-to-many"}`,
		"no JSON": `404 page not found`,
		"a text":  `{"status":"success","data":{"resultType":"vector","result":[{"value":[1.5,"two"]}]}}`,
	} {
		if got, err := answering(t, http.StatusBadRequest, answer).Instant(t.Context(), "x", time.Now()); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	c := answering(t, http.StatusOK, `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{},"values":[[1,"NaN"],[2,"1"]]},{"metric":{},"values":[[1,"+Inf"]],"histograms":[[2,{"count":"0","sum":"0"}]]}]}}`)
	series, err := c.Range(t.Context(), "x", time.Unix(1, 0), time.Unix(2, 0), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if points, numbers := Numbers(series); points != 4 || numbers != 3 {
		t.Errorf("%d points, %d numbers, want 4 and 3", points, numbers)
	}
}
