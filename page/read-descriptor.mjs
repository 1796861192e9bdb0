// Reads descriptors in the forms of terminals and logs: key=value,key2=value2; a line of the decision log, or the body
// of /json; Headgate's metadata in Envoy's access log. Pure.

/**
 * @typedef {{ entries: Entry[], limit?: unknown }} Descriptor
 * @typedef {{ domain?: string, descriptors: Descriptor[] }} Question
 */

/** @param {string} text @returns {Question | { problem: string }} */
export function readDescriptors(text) {
  const trimmed = text.trim();
  if (trimmed === "") return { problem: "Expected a descriptor, such as tenant=acme." };
  return /^[[{]/.test(trimmed) ? readJson(trimmed) : readTyped(trimmed);
}

/** A descriptor as one types it; undefined if it has bytes or hidden characters. @param {readonly Entry[]} entries @param {(text: string) => boolean} hides */
export function typedDescriptor(entries, hides) {
  if (entries.some(({ key, value }) => value === undefined || hides(key + value) || /[=,\\]/.test(key)))
    return undefined;
  const typed = entries.map(({ key, value = "" }) => `${key}=${value.replace(/[\\,]/g, "\\$&")}`).join(",");
  // Spaces around a line are trimmed; a line that begins like JSON or an option is read as such.
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
  const domain = typeof found.domain === "string" ? { domain: found.domain } : {};
  return { ...domain, descriptors: found.list.map(readDescriptor) };
}

/** Finds the descriptors in a log line, at any depth up to six. @param {unknown} json @param {number} depth @returns {{ domain?: unknown, list: unknown[] } | undefined} */
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

/** Entries as the server reads them, or as metadata has them: `"tenant=acme"`. The server says what is wrong with others. @param {any} json @returns {Descriptor} */
function readDescriptor(json) {
  const { entries = [], limit } = json ?? {};
  const read = [entries].flat().map((entry) => (typeof entry === "string" ? entryOf(entry) : askedEntry(entry ?? {})));
  return { entries: read, ...(limit === undefined || typeof limit === "string" ? {} : { limit }) };
}

/** An entry as the server takes it: bytes without the text that the server shows for them. @param {Entry} entry @returns {Entry} */
export function askedEntry({ key, value = "", value_base64: base64 }) {
  return base64 === undefined ? { key, value } : { key, value_base64: base64 };
}

/** @param {unknown} json @returns {json is Record<string, unknown>} */
function isRecord(json) {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

/** As src/engine/domain/entry-text.ts reads it, a descriptor a line. @param {string} text @returns {Question | { problem: string }} */
function readTyped(text) {
  const [, domain, rest = text] = /^(?:-d|--domain)[ =](\S+)\s+([\s\S]*)$/.exec(text) ?? [];
  const lines = rest.split(/\r?\n/).map((line) => line.trim());
  const descriptors = [];
  for (const line of lines.filter((each) => each !== "")) {
    // `\,` is a comma as text, `\\` a backslash.
    const parts = line.split(/(?<=(?<!\\)(?:\\\\)*),/);
    if (parts.some((part) => part.indexOf("=") < 1))
      return { problem: `Expected key=value,key2=value2, got '${line}'.` };
    if (parts.some((part) => /^(?:[^\\]|\\(?!x[0-9a-fA-F]{2})[\s\S])*\\x[0-9a-fA-F]{2}/.test(part)))
      return { problem: "Expected text: bytes are read in JSON, as value_base64 of an entry." };
    descriptors.push({ entries: parts.map((part) => entryOf(part.replace(/\\([\\,])/g, "$1"))) });
  }
  return { ...(domain === undefined ? {} : { domain }), descriptors };
}

/** `tenant=acme`, as metadata has it: the first = divides. @param {string} text @returns {Entry} */
function entryOf(text) {
  const at = text.indexOf("=");
  return at < 0 ? { key: text, value: "" } : { key: text.slice(0, at), value: text.slice(at + 1) };
}

/** A warning if a blank was probably typed for a comma, or next to one. @param {readonly Descriptor[]} descriptors */
export function doubtOf(descriptors) {
  for (const { key, value = "" } of descriptors.flatMap(({ entries }) => entries)) {
    if (key.trim() !== key)
      return `The key '${key}' begins or ends with a blank; expected key=value,key2=value2, without blanks.`;
    const [, first, second] = /^(.*?)[ \t]+([\w.-]+=.*)$/s.exec(value) ?? [];
    if (first === undefined) continue;
    return `The value of ${key} looks like two entries; commas separate entries: ${key}=${first},${second}`;
  }
  return undefined;
}
