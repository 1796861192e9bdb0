// Which hash slot of a Redis Cluster a key belongs to, as its specification says: CRC16 (XMODEM) of the hash tag, which is
// the text between the first brace and the next closing one, or of the whole key if there is none.

/** How many slots a cluster has. */
export const SLOTS = 16_384;

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  return crc & 0xffff;
});

/** Slot of a key of one-byte text, 0 to SLOTS - 1. */
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
