// Rows of a CSV file (RFC 4180). The first row names the columns; a field in quotes may hold separators and line ends.

const SEPARATORS = [",", ";", "\t"] as const;
/** Longest row, so that a quote without its end does not swallow the rest of the file. */
const ROW_CHARS_MAX = 1_000_000;

/** Reads rows line by line. */
export class CsvRows {
  readonly #separator: string;
  readonly #columns = new Map<string, number>();
  #open = "";

  /** `header` is the file's first line. The separator is comma, semicolon or tab, whichever occurs there most. */
  constructor(header: string) {
    const count = (separator: string) => header.split(separator).length;
    this.#separator = [...SEPARATORS].sort((a, b) => count(b) - count(a))[0] as string;
    const names = splitRow(withoutReturn(header), this.#separator) ?? [];
    names.forEach((name, i) => {
      this.#columns.set(name.trim(), i);
    });
  }

  /** The names of the columns, in order. */
  get columns(): readonly string[] {
    return [...this.#columns.keys()];
  }

  /** Takes the next line. Undefined while a quoted field goes on in the next one; null for a row that is too long. */
  next(line: string): ((column: string) => string | undefined) | undefined | null {
    if (this.#open.length + line.length > ROW_CHARS_MAX) {
      this.#open = "";
      return null;
    }
    const text = this.#open === "" ? line : `${this.#open}\n${line}`;
    const fields = splitRow(withoutReturn(text), this.#separator);
    this.#open = fields === undefined ? text : "";
    if (fields === undefined) return undefined;
    return (column) => {
      const at = this.#columns.get(column);
      return at === undefined ? undefined : fields[at];
    };
  }
}

function withoutReturn(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}

/** The fields of a row; undefined if a quote is still open at its end. */
function splitRow(row: string, separator: string): readonly string[] | undefined {
  if (!row.includes('"')) return row.split(separator);
  const fields: string[] = [];
  let at = 0;
  while (at <= row.length) {
    let field = "";
    // Inside quotes two quotes stand for one: each quoted part after the first begins with it.
    for (let parts = 0; row[at] === '"'; parts++) {
      const end = row.indexOf('"', at + 1);
      if (end < 0) return undefined;
      field += row.slice(parts === 0 ? at + 1 : at, end);
      at = end + 1;
    }
    const found = row.indexOf(separator, at);
    const end = found < 0 ? row.length : found;
    fields.push(field + row.slice(at, end));
    at = end + 1;
  }
  return fields;
}
