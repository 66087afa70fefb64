/** A cyclic redundancy check, most significant bit first, with the initial value 0. */
export function crc(bytes: Uint8Array, width: 8 | 16 | 32, polynomial: number): number {
  const shift = 32 - width
  const divisor = polynomial << shift
  let sum = 0
  for (const byte of bytes) {
    sum ^= byte << 24
    for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ (sum < 0 ? divisor : 0)
  }
  return sum >>> shift
}
