// Turns a google.protobuf.Struct, in the form of loadProto, into plain JSON values.

/** proto-loader has this type built in, and names its fields in camel case whatever `keepCase` says. */
export interface WireStruct {
  readonly fields: Readonly<Record<string, WireValue>>;
}

/** `kind` names the member that is set. A Value without any member stands for null. */
interface WireValue {
  readonly kind?: "nullValue" | "numberValue" | "stringValue" | "boolValue" | "structValue" | "listValue";
  readonly numberValue?: number;
  readonly stringValue?: string;
  readonly boolValue?: boolean;
  readonly structValue?: WireStruct;
  readonly listValue?: { readonly values: readonly WireValue[] };
}

/** The members of a Struct, as a plain object. */
export function plainStruct(struct: WireStruct): Record<string, unknown> {
  return Object.fromEntries(Object.entries(struct.fields).map(([key, value]) => [key, plainValue(value)]));
}

function plainValue(value: WireValue): unknown {
  if (value.structValue != null) return plainStruct(value.structValue);
  if (value.listValue != null) return value.listValue.values.map(plainValue);
  return value.stringValue ?? value.numberValue ?? value.boolValue ?? null;
}
