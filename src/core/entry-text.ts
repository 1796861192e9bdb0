// Descriptors as one line of text, for command lines and case files: key=value,key2=value2.

/** Takes the place of the backslash of `\xHH` while a descriptor is parsed; no argument of a program can contain it. */
export const BYTE_MARK = "\0";
/** What follows the backslash where a byte is written as two hex digits. */
export const BYTE_ESCAPES = /^x[0-9a-fA-F]{2}/;

/**
 * Splits text at commas. Inside a part `\,` is a comma and `\\` a backslash. `escapes` matches what else may follow a backslash; the
 * backslash then becomes BYTE_MARK.
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

/** The entries of a descriptor: a key without `=` has the empty value, empty text has no entries. Undefined if a key is empty. */
export function parseEntries(text: string): readonly (readonly [key: string, value: string])[] | undefined {
  const parts = text === "" ? [] : splitAtCommas(text);
  const entries = parts.map((part): readonly [string, string] => {
    const at = part.indexOf("=");
    return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
  });
  return entries.some(([key]) => key === "") ? undefined : entries;
}
