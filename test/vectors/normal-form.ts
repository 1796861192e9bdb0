// Brings answers into the form in which they were recorded: absent fields left out, enums by name, numbers as numbers.

/** A response as proto-loader gives it, as far as it is looked at. */
export interface LoadedResponse {
  readonly overall_code: string;
  readonly statuses: readonly {
    readonly code: string;
    readonly current_limit: { readonly name: string; readonly requests_per_unit: number; readonly unit: string } | null;
    readonly limit_remaining: number;
    readonly duration_until_reset: { readonly seconds: string; readonly nanos: number } | null;
  }[];
  readonly response_headers_to_add: readonly { readonly key: string; readonly value: string }[];
  readonly request_headers_to_add: readonly unknown[];
  readonly dynamic_metadata: LoadedStruct | null;
}

interface LoadedStruct {
  readonly fields: Readonly<Record<string, LoadedValue>>;
}

type LoadedValue = { readonly kind: string } & Readonly<Record<string, unknown>>;

export function normalResponse(response: LoadedResponse): object {
  const { overall_code, response_headers_to_add: headers, request_headers_to_add, dynamic_metadata } = response;
  return {
    overall_code,
    statuses: response.statuses.map(({ code, current_limit, limit_remaining, duration_until_reset: left }) => ({
      code,
      ...(current_limit === null
        ? {}
        : {
            current_limit: {
              name: current_limit.name,
              requests_per_unit: current_limit.requests_per_unit,
              unit: current_limit.unit,
            },
          }),
      limit_remaining,
      ...(left === null ? {} : { duration_until_reset: { seconds: Number(left.seconds), nanos: left.nanos } }),
    })),
    ...(headers.length === 0 ? {} : { headers: headers.map(({ key, value }) => ({ key, value })) }),
    ...(request_headers_to_add.length === 0 ? {} : { request_headers: request_headers_to_add }),
    ...(dynamic_metadata === null ? {} : { dynamic_metadata: plainStruct(dynamic_metadata) }),
  };
}

function plainStruct({ fields }: LoadedStruct): object {
  return Object.fromEntries(Object.entries(fields ?? {}).map(([name, value]) => [name, plainValue(value)]));
}

function plainValue(value: LoadedValue): unknown {
  const held = value[value.kind];
  if (value.kind === "nullValue") return null;
  if (value.kind === "structValue") return plainStruct(held as LoadedStruct);
  if (value.kind === "listValue") return (held as { values: LoadedValue[] }).values.map(plainValue);
  if (typeof held === "number" && !Number.isFinite(held)) return { number: String(held) };
  return held;
}
