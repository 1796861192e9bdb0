// Command example asks Headgate about sixty calls of one address, as an HTTP handler would about each request.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Calls are spread over all processes behind the name. There are no retries: an unanswered check may have been paid.
const serviceConfig = `{"loadBalancingConfig": [{"round_robin": {}}]}`

func main() {
	server := os.Getenv("HEADGATE")
	if server == "" {
		server = "localhost:8081"
	}
	conn, err := grpc.NewClient("dns:///"+server,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig), grpc.WithDisableRetry())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	conn.Connect()
	client := ratelimit.NewRateLimitServiceClient(conn)
	allowed, refused, unanswered := 0, 0, 0
	for range 60 {
		switch ok, err := allows(client, "203.0.113.7"); {
		case err != nil:
			unanswered++
		case ok:
			allowed++
		default:
			refused++
		}
	}
	fmt.Printf("60 calls: %d allowed, %d refused, %d without an answer\n", allowed, refused, unanswered)
}

// allows reports whether one more call of this address may pass. With an error, let the call pass and count it.
func allows(client ratelimit.RateLimitServiceClient, address string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	// Only the first call waits for the connection.
	answer, err := client.ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{
		Domain: "edge",
		Descriptors: []*common.RateLimitDescriptor{{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: "remote_address", Value: address}},
		}},
	})
	if err != nil {
		return true, err
	}
	return answer.OverallCode != ratelimit.RateLimitResponse_OVER_LIMIT, nil
}
