// How the text that a setting was given is shown in a message.

/** What is, or looks like, a key or certificate: PEM, or the base64 of it alone. */
const KEY_LIKE = /-----BEGIN|[A-Za-z0-9+]{100}|^M[A-Za-z][A-Za-z0-9+/=]{40}/;

/** Text in quotes, cut if long; nothing of it if it looks like a secret that was put into the wrong setting. */
export function quoted(text: string): string {
  if (KEY_LIKE.test(text)) return `something else (${text.length} characters, not shown)`;
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}
