// What the playground can begin with. test/page/playground.test.ts decides each.

export interface Example {
  readonly name: string;
  readonly rules: string;
  readonly calls: string;
}

export const EXAMPLES: readonly [Example, ...Example[]] = [
  {
    name: "Per tenant: bursts and a day's amount",
    rules: `domain: edge
descriptors:
  - key: tenant
    rate_limits:
      - { name: bursts, tokens_per_second: 10, burst: 50 }
      - { name: day, requests_per_unit: 400, unit: day, algorithm: fixed_window }
`,
    calls: `# 60 calls at once: the burst passes
- { call: tenant=acme, times: 60 }
# another tenant has its own buckets
- { call: tenant=other, times: 3 }
# 20 a second for 30 seconds, where 10 may pass, until the day's amount is used up
- { after: 5s, call: tenant=acme, times: 600, every: 50ms }
# nothing more until midnight
- { after: 5s, call: tenant=acme }
`,
  },
  {
    name: "Logins: five tries in ten minutes",
    rules: `domain: edge
descriptors:
  - key: login
    rate_limit: { requests_per_unit: 5, window: 10m, algorithm: sliding_log }
    on_store_failure: deny
`,
    calls: `- { call: login=ann, times: 3 }
- { after: 6m, call: login=ann, times: 3 }
- { after: 4m, call: login=ann, times: 4 }
# while the store is away, logins are refused
- { store: away, call: login=bob }
`,
  },
  {
    name: "LLM tokens: hold the estimate, pay what was used",
    rules: `domain: llm
descriptors:
  - key: tenant
    hold: { id: request_id, estimate: max_tokens, default: 4000, max: 32000, ttl: 120s }
    concurrent: 20
    rate_limits:
      - { name: per-minute, tokens_per_second: 1000, burst: 60000 }
      - { name: per-day, requests_per_unit: 20000000, unit: day, algorithm: fixed_window }
`,
    calls: `- { call: "tenant=acme,request_id=a,max_tokens=30000" }
- { call: "tenant=acme,request_id=b,max_tokens=30000" }
# no room while both run
- { after: 1s, call: "tenant=acme,request_id=c,max_tokens=30000" }
# the first has used 500, the rest comes back
- { after: 2s, call: "tenant=acme,request_id=a,settle=used", hits: 500 }
- { call: "tenant=acme,request_id=c,max_tokens=30000" }
`,
  },
  {
    name: "A global limit above all",
    rules: `domain: edge
global_limit: { name: all-together, requests_per_unit: 100, unit: second }
descriptors:
  - key: remote_address
    rate_limit: { name: per-address, tokens_per_second: 20, burst: 40 }
`,
    calls: `- { call: remote_address=203.0.113.1, times: 50 }
- { call: remote_address=203.0.113.2, times: 50 }
# its own bucket is full, yet everybody together has had enough
- { call: remote_address=203.0.113.3, times: 50 }
- { after: 1s, call: remote_address=203.0.113.3, times: 30, every: 10ms }
`,
  },
  {
    name: "Calendar: a month that begins on the 15th",
    rules: `domain: api
descriptors:
  - key: customer
    rate_limit:
      requests_per_unit: 3
      window: { calendar: month, time_zone: Europe/Berlin, starts_on: 15 }
`,
    calls: `- { call: customer=c1, times: 4 }
- { at: 2026-01-14T22:59:59Z, call: customer=c1 }
# midnight in Berlin
- { after: 1s, call: customer=c1 }
`,
  },
  {
    name: "Tiers: the plan comes with the call",
    rules: `domain: api
limits:
  free: { requests_per_unit: 5, unit: minute }
  gold: { requests_per_unit: 50, unit: minute }
  partner: { unlimited: true }
descriptors:
  - key: tenant
    tier: { entry: plan, default: free }
`,
    calls: `- { call: "tenant=small", times: 8 }
- { call: "tenant=acme,plan=gold", times: 60 }
- { call: "tenant=friend,plan=partner", times: 100 }
# an upgrade keeps what was spent
- { call: "tenant=small,plan=gold" }
`,
  },
  {
    name: "Addresses: an IPv6 host has a whole /64",
    rules: `domain: edge
descriptors:
  - key: remote_address
    address: { ipv6: 64 }
    rate_limit: { tokens_per_second: 1, burst: 5 }
  - key: remote_address
    match: { cidr: 198.51.100.0/28 }
    rate_limit: { unlimited: true }
`,
    calls: `- { call: "remote_address=2001:db8:1:2::1", times: 5 }
# the same host with another address
- { call: "remote_address=2001:db8:1:2:ffff::7" }
- { call: "remote_address=203.0.113.7", times: 5 }
# the same address in another spelling
- { call: "remote_address=::ffff:203.0.113.7" }
# the monitoring
- { call: "remote_address=198.51.100.3", times: 100 }
`,
  },
];
