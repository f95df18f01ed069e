package torture_test

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// object is what the tests look at of a ConfigMap or an Event. Every write gives it a value of its own.
type object struct {
	key, value, side, uid string
	rv                    int64
}

// wire is an object, a list or a Status as it is served.
type wire struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name               string            `json:"name"`
		UID                string            `json:"uid"`
		ResourceVersion    string            `json:"resourceVersion"`
		Labels             map[string]string `json:"labels"`
		Annotations        map[string]string `json:"annotations"`
		Continue           string            `json:"continue"`
		RemainingItemCount *int64            `json:"remainingItemCount"`
	} `json:"metadata"`
	Data    map[string]string `json:"data"`
	Items   []wire            `json:"items"`
	Reason  string            `json:"reason"`
	Message string            `json:"message"`
	Code    int               `json:"code"`
}

func parse(data []byte) (wire, error) {
	var w wire
	err := json.Unmarshal(data, &w)
	return w, err
}

// revision is the resourceVersion, 0 where there is none.
func (w *wire) revision() int64 {
	rv, err := strconv.ParseInt(w.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return rv
}

func (w *wire) object() object {
	value := w.Data["v"]
	if w.Data == nil {
		value = w.Reason // of an Event
	}
	return object{key: w.Metadata.Name, value: value, side: w.Metadata.Labels["side"], uid: w.Metadata.UID, rv: w.revision()}
}

// selector says which objects a list or a watch is about; the zero value is about all.
type selector struct{ side, name string }

func (s selector) selects(o *object) bool {
	return o != nil && (s.side == "" || s.side == o.side) && (s.name == "" || s.name == o.key)
}

func (s selector) String() string { return fmt.Sprintf("side=%q name=%q", s.side, s.name) }
