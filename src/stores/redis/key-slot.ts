// The hash slot of a key in a Redis Cluster, by its specification: CRC16 (XMODEM) of the hash tag, which is the text between the first `{`
// and the next `}`; or of the whole key if there is no such text.

/** Number of slots of a cluster. */
export const SLOTS = 16_384;

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  return crc & 0xffff;
});

/** The slot of a key in one-byte text, 0 to SLOTS - 1. */
export function keySlot(key: string): number {
  let from = 0;
  let to = key.length;
  const open = key.indexOf("{");
  if (open >= 0) {
    const close = key.indexOf("}", open + 1);
    if (close > open + 1) {
      from = open + 1;
      to = close;
    }
  }
  let crc = 0;
  for (let i = from; i < to; i++) {
    crc = ((crc << 8) & 0xffff) ^ (TABLE[((crc >> 8) ^ key.charCodeAt(i)) & 0xff] as number);
  }
  return crc % SLOTS;
}
