// Package headgate asks Headgate about each request, as a plugin of Traefik.
package headgate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Config is what dynamic.yaml says of the plugin.
type Config struct {
	URL                 string `json:"url"`
	Domain              string `json:"domain"`
	TimeoutMilliseconds int    `json:"timeoutMilliseconds"`
}

// CreateConfig returns the defaults.
func CreateConfig() *Config {
	return &Config{URL: "http://127.0.0.1:8080/json", Domain: "edge", TimeoutMilliseconds: 100}
}

type limited struct {
	config Config
	client *http.Client
	next   http.Handler
}

// New returns a handler that passes requests on to next unless Headgate refuses them.
func New(_ context.Context, next http.Handler, config *Config, _ string) (http.Handler, error) {
	client := &http.Client{Timeout: time.Duration(config.TimeoutMilliseconds) * time.Millisecond}
	return &limited{config: *config, client: client, next: next}, nil
}

func (l *limited) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	status, retryAfter, err := l.ask(request)
	if status == http.StatusTooManyRequests {
		writer.Header().Set("Retry-After", retryAfter)
		http.Error(writer, "too many requests", http.StatusTooManyRequests)
		return
	}
	if err != nil || status != http.StatusOK {
		fmt.Fprintf(os.Stderr, "passed without a decision: status %d, %v\n", status, err)
	}
	l.next.ServeHTTP(writer, request)
}

type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type descriptor struct {
	Entries []entry `json:"entries"`
}

type question struct {
	Domain      string       `json:"domain"`
	Descriptors []descriptor `json:"descriptors"`
}

// ask returns the status of Headgate's answer: 200 to pass, 429 to refuse.
func (l *limited) ask(request *http.Request) (int, string, error) {
	address, _, err := net.SplitHostPort(request.RemoteAddr)
	if err != nil {
		return 0, "", err
	}
	entries := []entry{{Key: "remote_address", Value: address}}
	body, err := json.Marshal(question{Domain: l.config.Domain, Descriptors: []descriptor{{Entries: entries}}})
	if err != nil {
		return 0, "", err
	}
	answer, err := l.client.Post(l.config.URL, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	// Read to its end, the connection serves the next question.
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Header.Get("Retry-After"), err
}
