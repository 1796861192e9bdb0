// Text from elsewhere (callers, rule files, servers) on its way to people: in a terminal, a log, a page. What would move
// the cursor, break the line, turn the direction of writing or hide is shown by its number. The one place for it.

/**
 * By Unicode's own classes: controls of both sets (C0, C1), format characters (marks that turn or isolate the direction of
 * writing, what has no width, tags), separators of lines and paragraphs, halves of surrogate pairs, and all else that is not
 * drawn.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu;

/** The text on one line, as `\x1b` and `\u202e` where it hides something. */
export function visible(text: string): string {
  return text.replace(HIDDEN, numberOf);
}

/** Text of several lines, shown as `visible` shows one: line feeds and tabs stay. */
export function visibleLines(text: string): string {
  return text.replace(HIDDEN, (char) => (char === "\n" || char === "\t" ? char : numberOf(char)));
}

/** JSON that means the same and hides nothing: in its strings such characters are escaped, and elsewhere there are none. */
export function visibleJson(json: string): string {
  return json.replace(HIDDEN, (char) => {
    if (char < " ") return char;
    return Array.from({ length: char.length }, (_, i) => `\\u${hex(char.charCodeAt(i), 4)}`).join("");
  });
}

function numberOf(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${hex(code, 2)}`;
  return code < 0x1_0000 ? `\\u${hex(code, 4)}` : `\\u{${code.toString(16)}}`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, "0");
}
