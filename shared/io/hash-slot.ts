/** The number of hash slots of a Redis Cluster. */
export const slotCount = 16_384

const polynomial = 0x1021

/** The slot of a hash tag: CRC16 (XMODEM), as Redis Cluster defines it. */
export function hashSlot(tag: string): number {
  let crc = 0
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = ((crc & 0x8000 ? (crc << 1) ^ polynomial : crc << 1) & 0xffff) >>> 0
  }
  return crc % slotCount
}
