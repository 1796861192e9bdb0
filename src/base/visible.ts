// Makes text of callers, rule files and servers safe to show in a terminal, a log or a page. Characters that would move
// the cursor, break the line, change the direction of writing or be invisible are shown by their number. All such text
// goes through here.

/**
 * Unicode's classes of control characters (C0, C1), format characters (direction marks, zero-width characters, tags),
 * line and paragraph separators, unpaired surrogates, and everything else that is not drawn.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu;

/** The text on one line; hidden characters become `\x1b`, `\u202e` and the like. */
export function visible(text: string): string {
  return text.replace(HIDDEN, numberOf);
}

/** As `visible`, for text of several lines: line feeds and tabs stay. */
export function visibleLines(text: string): string {
  return text.replace(HIDDEN, (char) => (char === "\n" || char === "\t" ? char : numberOf(char)));
}

/**
 * The same JSON value with hidden characters escaped. Valid JSON has such characters in strings only, apart from white
 * space.
 */
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
