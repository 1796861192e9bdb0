// Decodes percent-encoded UTF-8 in the text of settings.

/** The decoded text; undefined if `text` is not percent-encoded UTF-8. */
export function percentDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    if (cause instanceof URIError) return undefined;
    throw cause;
  }
}
