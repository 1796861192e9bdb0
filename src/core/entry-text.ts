// Descriptors in one line of text, as they are typed and stand in files of cases: key=value,key2=value2.

/** Stands before the two digits of a byte while a descriptor is read; no argument of a program can hold it. */
export const BYTE_MARK = "\0";
export const BYTE_ESCAPES = /^x[0-9a-fA-F]{2}/;

/**
 * The parts between commas; `\\,` is a comma and `\\\\` a backslash inside one. `escapes` are what else may follow a backslash, which
 * then stands as BYTE_MARK.
 */
export function splitAtCommas(text: string, escapes?: RegExp): string[] {
  const parts = [""];
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? "";
    const next = text[i + 1];
    if (char === "\\" && (next === "," || next === "\\")) {
      parts.push(`${parts.pop() ?? ""}${next}`);
      i++;
    } else if (char === "\\" && escapes?.test(text.slice(i + 1, i + 4)) === true) {
      parts.push(`${parts.pop() ?? ""}${BYTE_MARK}`);
      i++;
    } else if (char === ",") parts.push("");
    else parts.push(`${parts.pop() ?? ""}${char}`);
  }
  return parts;
}

/** The entries of a descriptor; a key alone has the empty value, the empty text no entry. Undefined if a key is empty. */
export function parseEntries(text: string): readonly (readonly [key: string, value: string])[] | undefined {
  const parts = text === "" ? [] : splitAtCommas(text);
  const entries = parts.map((part): readonly [string, string] => {
    const at = part.indexOf("=");
    return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
  });
  return entries.some(([key]) => key === "") ? undefined : entries;
}
