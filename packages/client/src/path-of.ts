// Paths as values of entries: what a request's URL names, in one spelling.

/** Characters whose escapes mean the same as they do (RFC 3986, 2.3). */
const UNRESERVED = /^[\w.~-]$/;

/**
 * The path of a request's URL: without query and fragment, host, `.` and `..`, repeated and last slashes; letters,
 * digits and `-._~` decoded, other characters as URLs write them. Upper and lower case differ. `/` for undefined and
 * "".
 */
export function pathOf(url: string | undefined): string {
  const target = url?.replace(/[?#].*$/s, "") ?? "";
  const isPath = target === "" || /^[/\\]/.test(target);
  // Others are the `*` of OPTIONS and the authority of CONNECT.
  if (!isPath && !/^https?:\/\//i.test(target)) return target;
  const whole = `${isPath ? "http://host" : ""}${target.replace(/%(?![\da-f]{2})/gi, "%25")}`;
  if (!URL.canParse(whole)) return target;
  const decoded = new URL(whole).pathname.replace(/%[\da-f]{2}/gi, withoutNeedlessEscape);
  return decoded.replace(/\/+/g, "/").replace(/(?<=.)\/$/, "");
}

function withoutNeedlessEscape(escaped: string): string {
  const character = String.fromCharCode(Number.parseInt(escaped.slice(1), 16));
  return UNRESERVED.test(character) ? character : escaped.toUpperCase();
}
