type Named = { name: string; bytes: Buffer }
const ways = ['cut', 'gap', 'spliced', 'flipped header', 'flipped bytes'] as const

/**
 * One of the files, damaged by a seed: cut, without a part, going on as another one, or with flipped bits in its header
 * or anywhere.
 */
export function damaged(files: readonly Named[], seed: number): Named & { how: (typeof ways)[number] } {
  let state = seed >>> 0
  const random = (below: number) => {
    // mulberry32: seeds that follow each other have nothing in common.
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
  const { name, bytes } = files[random(files.length)]!
  const at = random(bytes.length)
  const how = ways[random(ways.length)]!
  if (how === 'cut') return { name, how, bytes: bytes.subarray(0, at + 1) }
  if (how === 'gap') {
    const rest = bytes.subarray(at + random(20_000))
    return { name, how, bytes: Buffer.concat([bytes.subarray(0, at), rest]) }
  }
  if (how === 'spliced') {
    const other = files[random(files.length)]!.bytes
    return { name, how, bytes: Buffer.concat([bytes.subarray(0, at), other.subarray(random(other.length))]) }
  }
  const flipped = Buffer.from(bytes)
  const end = how === 'flipped header' ? Math.min(bytes.length, 4_000) : bytes.length
  for (let flips = 1 + random(4); flips > 0; flips--) flipped[random(end)]! ^= 1 << random(8)
  return { name, how, bytes: flipped }
}
