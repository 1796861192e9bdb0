// Reads descriptors as they stand in logs and at terminals: key=value,key2=value2; a line of the decision log or the body of
// /json; the descriptors that Envoy's access log prints of Headgate's metadata. Pure.

/**
 * @typedef {{ key: string, value?: string, value_base64?: string }} Entry
 * @typedef {{ entries: Entry[], limit?: unknown }} Descriptor
 * @typedef {{ domain?: string, descriptors: Descriptor[] }} Question
 */

/** @param {string} text @returns {Question | { problem: string }} */
export function readDescriptors(text) {
  const trimmed = text.trim();
  if (trimmed === "") return { problem: "Expected a descriptor, such as tenant=acme." };
  return /^[[{]/.test(trimmed) ? readJson(trimmed) : readTyped(trimmed);
}

/** A descriptor as it is typed; undefined if it can't be, because it holds bytes or hides something. @param {readonly Entry[]} entries @param {(text: string) => boolean} hides */
export function typedDescriptor(entries, hides) {
  if (entries.some(({ key, value }) => value === undefined || hides(key + value) || /[=,\\]/.test(key)))
    return undefined;
  const typed = entries.map(({ key, value = "" }) => `${key}=${value.replace(/[\\,]/g, "\\$&")}`).join(",");
  // Space around a line is none of it, and what begins like JSON or like an option is read as that.
  return typed.trim() === typed && !/^[[{-]/.test(typed) ? typed : undefined;
}

/** @param {string} text @returns {Question | { problem: string }} */
function readJson(text) {
  /** @type {unknown} */
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    return { problem: "Expected JSON, as it begins like JSON: it breaks off or has something behind it." };
  }
  const found = findDescriptors(json, 0);
  if (found === undefined) {
    const rule =
      isRecord(json) && typeof json.rule === "string"
        ? ` It names the rule ${json.rule}, whose table row has the counts.`
        : "";
    return { problem: `Expected descriptors in this JSON, found none.${rule}` };
  }
  const descriptors = found.list.map(readDescriptor);
  if (descriptors.includes(undefined))
    return { problem: "Expected each descriptor to have entries with a key and a value." };
  const domain = typeof found.domain === "string" ? { domain: found.domain } : {};
  return { ...domain, descriptors: /** @type {Descriptor[]} */ (descriptors) };
}

/** The descriptors, however deep a log line has them. @param {unknown} json @param {number} depth @returns {{ domain?: unknown, list: unknown[] } | undefined} */
function findDescriptors(json, depth) {
  if (Array.isArray(json)) return depth === 0 ? { list: json } : undefined;
  if (!isRecord(json) || depth > 6) return undefined;
  if (Array.isArray(json.descriptors)) return { domain: json.domain, list: json.descriptors };
  if (Array.isArray(json.entries)) return { domain: json.domain, list: [json] };
  for (const value of Object.values(json)) {
    const found = isRecord(value) ? findDescriptors(value, depth + 1) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/** @param {unknown} json @returns {Descriptor | undefined} */
function readDescriptor(json) {
  if (!isRecord(json) || !Array.isArray(json.entries)) return undefined;
  const entries = json.entries.map(readEntry);
  if (entries.includes(undefined)) return undefined;
  const limit = json.limit === undefined || typeof json.limit === "string" ? {} : { limit: json.limit };
  return { entries: /** @type {Entry[]} */ (entries), ...limit };
}

/** `{"key": "tenant", "value": "acme"}`, and `"tenant=acme"` as metadata has it. @param {unknown} json @returns {Entry | undefined} */
function readEntry(json) {
  if (typeof json === "string") return entryOf(json);
  if (!isRecord(json) || typeof json.key !== "string") return undefined;
  if (typeof json.value_base64 === "string") return { key: json.key, value_base64: json.value_base64 };
  return json.value === undefined || typeof json.value === "string"
    ? { key: json.key, value: json.value ?? "" }
    : undefined;
}

/** @param {unknown} json @returns {json is Record<string, unknown>} */
function isRecord(json) {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

/** As `headgate buckets` reads it, a descriptor a line. @param {string} text @returns {Question | { problem: string }} */
function readTyped(text) {
  const [, domain, rest = text] = /^(?:-d|--domain)[ =](\S+)\s+([\s\S]*)$/.exec(text) ?? [];
  const descriptors = rest
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .map((line) => ({ entries: splitAtCommas(line).map(entryOf).map(withBytes) }));
  if (descriptors.some(({ entries }) => entries.some(({ key }) => key === ""))) {
    return { problem: "Expected key=value,key2=value2, found a part without a key." };
  }
  return { ...(domain === undefined ? {} : { domain }), descriptors };
}

/** The first = divides. @param {string} text @returns {Entry & { value: string }} */
function entryOf(text) {
  const at = text.indexOf("=");
  return at < 0 ? { key: text, value: "" } : { key: text.slice(0, at), value: text.slice(at + 1) };
}

/** What stands for a byte written as \xff until its value is taken apart. No text that is typed holds it. */
const BYTE_MARK = "\0";

/** @param {string} text */
function splitAtCommas(text) {
  const parts = [""];
  for (const [piece] of text.matchAll(/\\[\\,]|\\x[0-9a-fA-F]{2}|[\s\S]/gu)) {
    if (piece === ",") parts.push("");
    else if (/^\\[\\,]$/.test(piece)) parts[parts.length - 1] += piece.slice(1);
    else parts[parts.length - 1] += /^\\x../.test(piece) ? `${BYTE_MARK}${piece.slice(2)}` : piece;
  }
  return parts;
}

/** @param {Entry & { value: string }} entry @returns {Entry} */
function withBytes({ key, value }) {
  const [first = "", ...others] = value.split(BYTE_MARK);
  if (others.length === 0) return { key, value };
  const bytes = [...new TextEncoder().encode(first)];
  for (const piece of others) {
    bytes.push(Number.parseInt(piece.slice(0, 2), 16), ...new TextEncoder().encode(piece.slice(2)));
  }
  return { key, value_base64: btoa(String.fromCharCode(...bytes)) };
}
