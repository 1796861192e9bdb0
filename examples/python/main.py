"""Asks Headgate about sixty calls of one address, as an HTTP handler would about each request."""

import os

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

# Calls are spread over all processes behind the name. There are no retries: an unanswered check may have been paid.
OPTIONS = [
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
    ("grpc.enable_retries", 0),
    ("grpc.keepalive_time_ms", 20_000),
]
DEADLINE_S = 0.1


def allows(limiter, address):
    """Whether one more call of this address may pass; None without an answer: let the call pass, and count it."""
    request = rls_pb2.RateLimitRequest(domain="edge")
    request.descriptors.add().entries.add(key="remote_address", value=address)
    try:
        answer = limiter.ShouldRateLimit(request, timeout=DEADLINE_S)
    except grpc.RpcError:
        return None
    return answer.overall_code != rls_pb2.RateLimitResponse.OVER_LIMIT


def main():
    server = os.environ.get("HEADGATE", "localhost:8081")
    with grpc.insecure_channel(f"dns:///{server}", options=OPTIONS) as channel:
        limiter = rls_pb2_grpc.RateLimitServiceStub(channel)
        try:
            # Connects, so that the first calls have their whole deadline.
            grpc.channel_ready_future(channel).result(timeout=5)
        except grpc.FutureTimeoutError:
            pass  # Calls pass without limits until a server answers.
        answers = [allows(limiter, "203.0.113.7") for _ in range(60)]
    counts = [answers.count(answer) for answer in (True, False, None)]
    print("60 calls: {} allowed, {} refused, {} without an answer".format(*counts))


if __name__ == "__main__":
    main()
