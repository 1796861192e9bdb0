// Rules and calls as the part of an address after `#`: nothing of them is ever sent to a server.

export interface Shared {
  readonly rules: string;
  readonly calls: string;
}

/** Text longer than this makes no link: browsers and chats cut those. */
const HASH_CHARS_MAX = 100_000;

/** Undefined if the link would be too long. */
export async function hashOf({ rules, calls }: Shared): Promise<string | undefined> {
  const bytes = await through(
    new CompressionStream("deflate-raw"),
    new TextEncoder().encode(JSON.stringify([rules, calls])),
  );
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  const hash = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return hash.length > HASH_CHARS_MAX ? undefined : hash;
}

/** What the hash holds; undefined for one that was cut or made by something else. */
export async function sharedIn(hash: string): Promise<Shared | undefined> {
  try {
    const binary = atob(hash.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    const text = new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes));
    const [rules, calls] = JSON.parse(text) as unknown[];
    return typeof rules === "string" && typeof calls === "string" ? { rules, calls } : undefined;
  } catch {
    return undefined;
  }
}

async function through(stream: CompressionStream | DecompressionStream, bytes: BlobPart): Promise<Uint8Array> {
  const readable = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(readable).arrayBuffer());
}
