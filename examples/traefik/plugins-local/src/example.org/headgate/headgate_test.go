package headgate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// statuses sends as many requests through the plugin, which asks url.
func statuses(t *testing.T, url string, requests int) map[int]int {
	config := CreateConfig()
	config.URL = url
	next := http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) { writer.WriteHeader(http.StatusOK) })
	handler, err := New(context.Background(), next, config, "headgate")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for range make([]struct{}, requests) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
		counts[recorder.Code]++
		if recorder.Code == http.StatusTooManyRequests && recorder.Header().Get("Retry-After") == "" {
			t.Error("a refusal without Retry-After")
		}
	}
	return counts
}

// HEADGATE is the HTTP port of one that serves deploy/rules.
func TestTheLimitHolds(t *testing.T) {
	counts := statuses(t, "http://"+os.Getenv("HEADGATE")+"/json", 60)
	if counts[http.StatusOK] < 50 || counts[http.StatusTooManyRequests] < 5 {
		t.Errorf("expected some 50 of 60 requests to pass, got %v", counts)
	}
}

func TestRequestsPassWithoutHeadgate(t *testing.T) {
	counts := statuses(t, "http://127.0.0.1:1/json", 3)
	if counts[http.StatusOK] != 3 {
		t.Errorf("expected 3 of 3 requests to pass, got %v", counts)
	}
}
