package recording

import "github.com/prometheus/client_golang/prometheus"

// Reasons why a request was not recorded.
const (
	droppedQueue = "queue_full"
	droppedWrite = "write_error"
	droppedEnd   = "shutdown"
)

// Metrics are the collectors of a Recorder.
type Metrics struct {
	written, bytes prometheus.Counter
	dropped        *prometheus.CounterVec
}

// NewMetrics makes the collectors and registers them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		written: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_admission_records_total",
			Help: "Admission requests that were written to the recording."}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_admission_record_bytes_total",
			Help: "Bytes that were written to the recording."}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_admission_records_dropped_total",
			Help: "Admission requests that should have been recorded and were not, by reason: queue_full (the disk is slower than the requests), write_error, shutdown (the server could not wait until all was written)."},
			[]string{"reason"}),
	}
	for _, c := range []prometheus.Collector{m.written, m.bytes, m.dropped} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// wrote counts the lines that were written.
func (m *Metrics) wrote(t tally) {
	if m != nil {
		m.written.Add(float64(t.written))
		m.bytes.Add(float64(t.bytes))
	}
}

// drop counts requests that are not recorded.
func (m *Metrics) drop(reason string, requests int) {
	if m != nil && requests > 0 {
		m.dropped.WithLabelValues(reason).Add(float64(requests))
	}
}
