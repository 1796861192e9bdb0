// A control plane for tests, on go-control-plane's snapshot cache. It serves RateLimitConfig resources on the aggregated
// stream, state of the world. What to serve comes as lines of JSON on standard input; what clients say goes out as lines of
// JSON on standard output. It ends when its standard input does.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/emptypb"
)

// command is a line of standard input: the set that is served from now on.
type command struct {
	Version string `json:"version"`
	// Resources are RateLimitConfig messages in proto3 JSON.
	Resources []json.RawMessage `json:"resources"`
	// Raw are the bytes of further resources, in base64, whatever they are.
	Raw []string `json:"raw"`
}

// rawMessage is a message that is written as the bytes it was made of.
func rawMessage(encoded string) (types.Resource, error) {
	bytes, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	message := &emptypb.Empty{}
	message.ProtoReflect().SetUnknown(bytes)
	return message, nil
}

func (c command) set() ([]types.Resource, error) {
	set := []types.Resource{}
	for _, text := range c.Resources {
		config := &ratelimitv3.RateLimitConfig{}
		if err := protojson.Unmarshal(text, config); err != nil {
			return nil, err
		}
		set = append(set, config)
	}
	for _, encoded := range c.Raw {
		message, err := rawMessage(encoded)
		if err != nil {
			return nil, err
		}
		set = append(set, message)
	}
	return set, nil
}

// teller writes what happens, one line each.
type teller struct{ mutex sync.Mutex }

func (t *teller) tell(fields map[string]any) {
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	fmt.Println(string(line))
}

func (t *teller) callbacks() serverv3.CallbackFuncs {
	return serverv3.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, id int64, _ string) error {
			headers, _ := metadata.FromIncomingContext(ctx)
			t.tell(map[string]any{"event": "open", "stream": id, "headers": headers})
			return nil
		},
		StreamClosedFunc: func(id int64, _ *corev3.Node) { t.tell(map[string]any{"event": "closed", "stream": id}) },
		StreamRequestFunc: func(id int64, request *discoveryv3.DiscoveryRequest) error {
			t.tell(map[string]any{
				"event": "request", "stream": id, "node": request.GetNode().GetId(),
				"metadata": request.GetNode().GetMetadata().AsMap(), "type": request.GetTypeUrl(),
				"names": len(request.GetResourceNames()), "version": request.GetVersionInfo(),
				"nonce": request.GetResponseNonce(), "error": request.GetErrorDetail().GetMessage(),
			})
			return nil
		},
		StreamResponseFunc: func(_ context.Context, id int64, _ *discoveryv3.DiscoveryRequest, response *discoveryv3.DiscoveryResponse) {
			t.tell(map[string]any{
				"event": "response", "stream": id, "version": response.GetVersionInfo(), "nonce": response.GetNonce(),
			})
		},
	}
}

// serverTLS reads the certificates at each handshake, so that renewed ones count at once. Clients must show one of the CA.
func serverTLS(certFile, keyFile, caFile string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				return nil, err
			}
			authorities, err := os.ReadFile(caFile)
			if err != nil {
				return nil, err
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(authorities)
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				NextProtos:   []string{"h2"},
				Certificates: []tls.Certificate{certificate},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    pool,
			}, nil
		},
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	node := flag.String("node", "headgate-test", "id of the node that the set is for")
	certFile := flag.String("cert", "", "certificate (PEM); plaintext without one")
	keyFile := flag.String("key", "", "its key")
	caFile := flag.String("ca", "", "authorities of client certificates")
	pingsFrom := flag.Duration("pings-from", 0, "least time between pings of a client; 0: grpc-go's five minutes")
	flag.Parse()

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := &teller{}
	// No keepalive policy unless asked for, as the gateways have none: then a client that pings too often is sent away.
	options := []grpc.ServerOption{}
	if *pingsFrom > 0 {
		options = append(options, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: *pingsFrom}))
	}
	if *certFile != "" {
		options = append(options, grpc.Creds(credentials.NewTLS(serverTLS(*certFile, *keyFile, *caFile))))
	}
	snapshots := cachev3.NewSnapshotCache(false, cachev3.IDHash{}, nil)
	server := grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(
		server, serverv3.NewServer(context.Background(), snapshots, out.callbacks()),
	)
	go func() {
		if err := server.Serve(listener); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	out.tell(map[string]any{"event": "listening", "port": listener.Addr().(*net.TCPAddr).Port})

	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		if err := serve(snapshots, *node, line); err != nil {
			out.tell(map[string]any{"event": "fault", "message": err.Error()})
		}
	}
	server.Stop()
}

func serve(snapshots cachev3.SnapshotCache, node string, line []byte) error {
	given := command{}
	if err := json.Unmarshal(line, &given); err != nil {
		return err
	}
	set, err := given.set()
	if err != nil {
		return err
	}
	snapshot, err := cachev3.NewSnapshot(given.Version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: set})
	if err != nil {
		return err
	}
	return snapshots.SetSnapshot(context.Background(), node, snapshot)
}
