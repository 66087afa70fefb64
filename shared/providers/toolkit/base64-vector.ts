/** A vector as OpenAI's clients decode it: little-endian 32-bit floats in base64. */
export function base64Vector(values: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(values.length * 4)
  for (let i = 0; i < values.length; i++) bytes.writeFloatLE(values[i]!, i * 4)
  return bytes.toString('base64')
}
