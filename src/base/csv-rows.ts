// Rows of a CSV file (RFC 4180, a row a line) as objects. The first row names the columns; a field in quotes may hold
// separators.

const SEPARATORS = [",", ";", "\t"] as const;

/**
 * Reads rows below this header; undefined for one with a quote that is not closed. The separator is the one that the
 * header has most.
 */
export function csvReader(header: string): (row: string) => Readonly<Record<string, unknown>> | undefined {
  const count = (separator: string) => header.split(separator).length;
  const separator = SEPARATORS.reduce((best, next) => (count(next) > count(best) ? next : best));
  const names = splitRow(header, separator)?.map((name) => name.trim()) ?? [];
  return (row) => {
    const fields = splitRow(row, separator);
    return fields && Object.fromEntries(names.map((name, i) => [name, fields[i]]));
  };
}

function splitRow(row: string, separator: string): readonly string[] | undefined {
  const text = row.replace(/\r$/, "");
  if (!text.includes('"')) return text.split(separator);
  const fields: string[] = [];
  let at = 0;
  while (at <= text.length) {
    let field = "";
    // Inside quotes two quotes mean one: each quoted part after the first begins with it.
    for (let parts = 0; text[at] === '"'; parts++) {
      const end = text.indexOf('"', at + 1);
      if (end < 0) return undefined;
      field += text.slice(parts === 0 ? at + 1 : at, end);
      at = end + 1;
    }
    const found = text.indexOf(separator, at);
    const end = found < 0 ? text.length : found;
    fields.push(field + text.slice(at, end));
    at = end + 1;
  }
  return fields;
}
