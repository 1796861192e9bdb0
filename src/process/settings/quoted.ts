// Quotes the text of a setting for a message.

/** Text that looks like a key or certificate: PEM, or its base64 alone. */
const KEY_LIKE = /-----BEGIN|[A-Za-z0-9+]{100}|^M[A-Za-z][A-Za-z0-9+/=]{40}/;

/** Text in quotes, cut if long. Text that looks like a secret in the wrong setting is not shown. */
export function quoted(text: string): string {
  if (KEY_LIKE.test(text)) return `something else (${text.length} characters, not shown)`;
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}
