/** A quiet 440 Hz tone: mono, 16-bit little-endian samples. */

export const toneRateHz = 24_000
const toneHz = 440
const amplitude = 6_000

/** The number of samples in `seconds`. */
export function toneSamples(seconds: number): number {
  return Math.max(1, Math.round(seconds * toneRateHz))
}

/** The tone in parts of one second, the last one shorter: a second contains whole periods. */
export function* toneParts(seconds: number): Generator<Buffer> {
  const second = toneSecond()
  const samples = toneSamples(seconds)
  for (let sent = 0; sent < samples; sent += toneRateHz)
    yield second.subarray(0, Math.min(toneRateHz, samples - sent) * 2)
}

function toneSecond(): Buffer {
  const bytes = Buffer.alloc(toneRateHz * 2)
  for (let i = 0; i < toneRateHz; i++)
    bytes.writeInt16LE(Math.round(amplitude * Math.sin((2 * Math.PI * toneHz * i) / toneRateHz)), i * 2)
  return bytes
}
